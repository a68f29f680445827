"""Columns of a CSV or Parquet file as attributes: what sources that read the user's own tables
share.

Every cell of an attribute must hold a value; errors name file, column and row. polars is imported
where a file is read, because planning most studies reads none. A child process of bounded memory
tries Parquet first: at a damaged file (a run length of 2^61) polars' allocator aborts, which no
Python catches.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError, InputError, counted, one_line, unknown
from crosswind.core.files import library_path, read_at_most
from crosswind.data.archives.checks import tried
from crosswind.data.attributes import MOST_ROWS, MOST_VALUES, Attribute, AttributeTable
from crosswind.data.frames import with_texts
from crosswind.data.headers import first_row_in_header, names_for, repeated_header
from crosswind.data.preamble import plain_table, separator_of
from crosswind.data.quoting import quote_of, stray_quote
from crosswind.data.spellings import Spellings, UnitDoubts, spellings_of_series
from crosswind.data.written_numbers import MISSING

if TYPE_CHECKING:
    from polars import DataFrame, Series

Notes = tuple[tuple[str, str], ...]
"""What is said of attributes, by name; see `AttributedDataset`."""
KINDS = (".csv", ".tsv", ".parquet")
SHEETS = (".xlsx", ".xls", ".ods", ".numbers")
PLAIN = ("", ".txt", ".data", ".dat", ".asc")
OTHER_TABLES = (".json", ".jsonl", ".ndjson", ".feather", ".arrow", ".dta", ".sav", ".rds", ".pkl")
PACKED = (".gz", ".zip", ".bz2", ".xz", ".zst", ".7z", ".tar", ".tgz")
MOST_BYTES = 4 << 30  # of a CSV file, which is read whole; the same table takes far less as Parquet
MANY_NUMBERS = 1000
_UNQUOTED = re.compile(rb'"[^"]*"')
NAMES_ADVICE = "write a line of names above it, or name its columns, such as header: [{names}]"
"""What to do about a table without a line of names, for settings of sources; commands have an
option."""
NAMES_ABOVE = "write a line of names above it, such as {names}"
"""The same where nothing else can name them."""
MOST_MEMORY = 8 << 30  # of the child that tries Parquet, in bytes
CONTENTS: Mapping[bytes, str] = {
    b"PK\x03\x04": "a sheet of Excel or a ZIP archive: save the sheet as CSV (UTF-8), or unpack it",
    b"\xd0\xcf\x11\xe0": "an old sheet of Excel: save it as CSV (UTF-8)",
    b"\x1f\x8b": "packed by gzip: unpack it first",
    b"PAR1": "a Parquet file: end its name in .parquet",
    b"version https://git-lfs": "a pointer of Git LFS: fetch the file itself by git lfs pull",
    b"<!doctype html": "a page of HTML, as a server sends in place of a file: fetch it again",
    b"<html": "a page of HTML, as a server sends in place of a file: fetch it again",
    b"{": "JSON: write it as CSV or Parquet",
    b"[{": "JSON: write it as CSV or Parquet",
}
"""How files begin that are named as a CSV table and are none, in lower case, and what they are."""


class NoValue(DataError):
    """A cell without a value, of `column`."""

    def __init__(self, problem: str, column: str) -> None:
        super().__init__(problem)
        self.column = column


class NoNames(DataError):
    """A table whose first line is a row."""


def read_table(
    path: str,
    field: str,
    names: Sequence[str] | None = None,
    remedy: str = NAMES_ADVICE,
    unnamed: str = "",
    notes: list[str] | None = None,
) -> DataFrame:
    """The rows of a CSV (UTF-8, with a first line of names) or Parquet file. CSV cells are all
    text, empty ones null.

    Cells of a CSV are separated by commas, or by what stands in its first line without one:
    semicolons, tabs or bars. Spaces separate them where every line has as many cells and one of
    them is an image. Comments, `sep=`, blank lines and a line with the number of rows above the
    table are passed over (`crosswind.data.preamble`). So is a column without a name whose whole
    numbers grow from row to row; other columns without a name are called by their number.

    `names`: of the columns of a CSV whose first line is a row; where it holds just these names, it
    is none. `unnamed`: what a column without a name is called, with {number} for its
    number, one that counts the rows too.

    Rows at the end without any cell are left out, and cells behind the last name that are empty in
    all rows; `notes` is given a sentence on each.

    `field` names the setting in errors about the path, `remedy` says how names are given, with
    {names} for some. Raises `InputError` for a path that is no such file and names that do not fit.
    Raises `DataError` for a file that cannot be read as a table, has no rows, gives two columns one
    name, or holds a row where its names should stand.
    """
    file_path, kind = _table_file(path, field, names)
    import polars

    text, lines_above = b"", 0
    try:
        if kind != ".parquet":
            whole_text = _text_of(file_path, path)
            text = plain_table(whole_text)
            lines_above = whole_text.count(b"\n") - text.count(b"\n")
            # Without a header first: polars would rename a column that is named twice.
            rows = _csv_rows(text, path, lines_above, [] if notes is None else notes)
            header = [None if name is None else str(name).strip() for name in rows.row(0)]
            rows, header = _under_names(rows, header, names, path, field, remedy)
        else:
            tried(whole_parquet, file_path, MOST_MEMORY)
            rows = with_texts(whole_parquet(file_path))
            if rows.height > MOST_ROWS:
                raise DataError(f"{path} holds {rows.height:,} rows, more than {MOST_ROWS:,}")
            header = [name.strip() for name in rows.columns]
    except polars.exceptions.NoDataError:
        raise DataError(f"{path} is empty") from None
    except (polars.exceptions.PolarsError, OSError, ValueError) as error:
        problem = (
            _fault_of(text, path, lines_above)
            or stray_quote(text, separator_of(text), path, lines_above)
            or f"{path} cannot be read as a table: {_first_sentence(str(error))}"
        )
        raise DataError(problem) from None
    if not unnamed:
        rows, header = _without_index(rows, header)
    return _with_names(rows, header, path, unnamed or "column{number}")


def _csv_rows(text: bytes, path: str, lines_above: int, notes: list[str]) -> DataFrame:
    """The lines of a CSV table as rows of text, without what is empty behind its last row and its
    last name, of which `notes` are written. Raises `DataError` and errors of polars."""
    import polars

    separator = separator_of(text)
    options: dict[str, Any] = {
        "has_header": False,
        "infer_schema": False,
        "separator": separator,
        "quote_char": quote_of(text, separator, path, lines_above),
    }
    try:
        rows = polars.read_csv(text, **options)
    except polars.exceptions.ComputeError:
        n_lines = _lines_with_empty_ends(text, options)
        if n_lines is None:
            raise
        rows = polars.read_csv(text, truncate_ragged_lines=True, **options)
        if rows.height != n_lines:
            raise
        notes.append(f"cells behind the {rows.width} of the first line are empty and left out")
    n_rows = rows.height - _n_empty_at_end(rows)
    if n_rows < rows.height:
        notes.append(f"{counted(rows.height - n_rows, 'empty row')} at the end left out")
    return rows.head(n_rows)


def _lines_with_empty_ends(text: bytes, options: Mapping[str, Any]) -> int | None:
    """The number of a table's rows, its names among them, if the cells that some have beyond those
    of the first line are empty; None if any is not."""
    quote = options["quote_char"]
    reader = csv.reader(
        io.StringIO(text.decode(), newline=""),
        delimiter=options["separator"],
        quotechar=quote or '"',
        quoting=csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE,
        strict=True,
    )
    n_first, n_lines = 0, 0
    try:
        for cells in reader:
            n_first = n_first or len(cells)
            if any(cell.strip() for cell in cells[n_first:]):
                return None
            n_lines += bool(cells)
    except csv.Error:
        return None
    return n_lines


def _n_empty_at_end(rows: DataFrame) -> int:
    """How many rows at the end of a table of several columns have no cell with anything in it."""
    if rows.width < 2 or any((cell or "").strip() for cell in rows.row(-1)):
        return 0
    return rows.height - 1 - int(is_blank(rows).not_().arg_true()[-1])


def is_blank(rows: DataFrame) -> Series:
    """Which rows hold nothing in any column: bool [n]."""
    import polars

    blank = polars.Series([True]).new_from_index(0, rows.height)
    for column in rows.get_columns():
        empty = column.is_null()
        if column.dtype == polars.String:
            empty |= (column.str.strip_chars() == "").fill_null(True)
        blank &= empty
    return blank


def _table_file(path: str, field: str, names: Sequence[str] | None) -> tuple[Path, str]:
    """The file of a table and its ending in lower case. Raises `InputError`."""
    file_path = Path(path).expanduser()
    kind = file_path.suffix.lower()
    if file_path.is_dir():
        raise InputError(field, _table_needed(file_path, path))
    if kind not in KINDS:
        remedy = "; save the sheet as CSV (UTF-8)" if kind in SHEETS else ""
        remedy = "; unpack it first" if kind in PACKED else remedy
        remedy = "; name a table of text .csv or .tsv" if kind in PLAIN else remedy
        remedy = "; write it as CSV or Parquet" if kind in OTHER_TABLES else remedy
        raise InputError(field, f"{path!r} is no table by its name{remedy}", KINDS)
    if not file_path.is_file():
        problem = f"{path!r} is not a file" if file_path.exists() else f"there is no file {path!r}"
        raise InputError(field, problem)
    if kind == ".parquet" and names is not None:
        raise InputError(
            _setting_beside(field),
            f"names columns of a CSV table, and {path} is a Parquet file with its own",
        )
    return file_path, kind


def _table_needed(folder: Path, path: str) -> str:
    """That a folder is no table, and which table its files can be put into."""
    inside = sorted(file.name for file in folder.iterdir() if file.suffix.lower() in KINDS)
    tables = f"; it holds {', '.join(repr(name) for name in inside[:3])}" if inside else ""
    needed = f"{path!r} is a folder, and a table is needed: a CSV file with a column of"
    if any(folder.glob("*.txt")) or any(folder.glob("*/*.txt")):
        return f"{needed} texts, as they stand in these files, and one of classes{tables}"
    return (
        f"{needed} paths (pictures in one folder a class need none: a study has them as source:"
        f" image-folder, options: {{path: {path}}}, label: class){tables}"
    )


def _without_index(
    rows: DataFrame, header: Sequence[str | None]
) -> tuple[DataFrame, list[str | None]]:
    """The table without columns that have no name and number its rows, as data frames are written
    with their index."""
    columns = rows.get_columns()
    named = []
    for position, (name, column) in enumerate(zip(header, columns, strict=True)):
        if name or not _numbers_rows(column):
            named.append(position)
    return rows[:, named], [header[position] for position in named]


def _numbers_rows(column: Series) -> bool:
    """Whether a column holds whole numbers that grow from row to row."""
    import polars

    numbers = column.cast(polars.Int64, strict=False)
    if not len(numbers) or numbers.null_count():
        return False
    return len(numbers) == 1 or bool((numbers.diff().drop_nulls() > 0).all())


def _with_names(
    rows: DataFrame, header: Sequence[str | None], path: str, unnamed: str
) -> DataFrame:
    """The rows under their names, those of columns without one made of their number.

    Of columns of one name and equal cells the first is taken. Raises `DataError` for a table
    without rows and for two columns of one name that differ.
    """
    columns: dict[str, Series] = {}
    for position, (named, column) in enumerate(zip(header, rows.get_columns(), strict=True)):
        name = named or unnamed.format(number=position + 1)
        if "\x00" in name:
            raise DataError(f"{path}: the name of column {position + 1} holds a null character")
        if name == "*" or (name[0] == "^" and name[-1] == "$"):
            # polars takes it for all columns, or for those that fit.
            raise DataError(
                f"{path}: column {position + 1} is called {name!r}, which is a pattern and no name;"
                " give it another"
            )
        if name not in columns:
            columns[name] = column.alias(name)
        elif not column.equals(columns[name], null_equal=True):
            row = int(column.ne_missing(columns[name]).arg_true()[0]) + 1
            second = ""
            if _are_names(rows):
                second = ", and where row 1 holds a second line of names make one line of the two"
            raise DataError(
                f"{path} names column {name!r} twice, and the two differ (row {row}); give one of"
                f" them another name{second}"
            )
    if not rows.height or not columns:
        raise DataError(f"{path} has no rows")
    return rows.select(list(columns.values()))


def _are_names(rows: DataFrame) -> bool:
    """Whether the first row of a table of texts holds words, all different, over a number."""
    import polars

    if rows.height < 2 or any(kind != polars.String for kind in rows.dtypes):
        return False
    words = [str(cell or "").strip() for cell in rows.row(0)]
    numbers = polars.Series([*words, *(str(cell) for cell in rows.row(1))])
    is_number = numbers.cast(polars.Float64, strict=False).is_not_null()
    no_word_is = not is_number[: len(words)].any()
    return no_word_is and len(set(words)) == len(words) and bool(is_number.any())


def unquoted_names(names: Sequence[str], path: Path, separator: str = ",") -> dict[str, str]:
    """From names of a CSV's columns as polars reads them to the ones that are meant, where they
    differ.

    polars undoes the doubled quotes of cells, and leaves those of the first line.
    """
    import polars

    if not any('""' in name for name in names):
        return {}
    first = polars.read_csv(
        library_path(path), has_header=False, infer_schema=False, n_rows=1, separator=separator
    ).row(0)
    return {
        name: meant
        for name, meant in zip(names, first, strict=True)
        if '""' in name and meant not in (None, name)
    }


def _under_names(
    rows: DataFrame,
    first: list[str | None],
    names: Sequence[str] | None,
    path: str,
    field: str,
    remedy: str,
) -> tuple[DataFrame, list[str | None]]:
    """The rows under a table's names, and these: its first line, or those that are given. Raises
    `InputError`, `DataError`."""
    below = rows.slice(1)
    if names is not None:
        if len(names) != rows.width:
            problem = (
                f"names {len(names)} columns, and the first line of {path} has {rows.width} cells"
            )
            raise InputError(_setting_beside(field), problem)
        return below if list(names) == first else rows, list(names)
    why = first_row_in_header(first, below.get_columns(), Path(path).expanduser().parent)
    if why is not None:
        advice = remedy.format(names=",".join(names_for(first, below.get_columns())))
        raise NoNames(f"{path} has no line of names: its first line is a row ({why}); {advice}")
    again = repeated_header(first, below.get_columns())
    if again is not None:
        raise DataError(
            f"{path}, row {again + 1} holds the names of the columns once more: were two tables"
            " joined? Take it out"
        )
    return below, first


def _setting_beside(field: str) -> str:
    """The setting that names columns, beside the one that names the file."""
    if "." in field:
        return f"{field.rpartition('.')[0]}.header"
    return "--header"


def whole_parquet(file_path: Path) -> DataFrame:
    """All rows of a Parquet file: what `tried` is given first. Raises `DataError` for a damaged
    one."""
    import polars

    try:
        return polars.read_parquet(library_path(file_path), glob=False)
    except (polars.exceptions.PolarsError, OSError, ValueError) as error:
        raise DataError(
            f"{file_path} cannot be read as a PARQUET table: {_first_sentence(str(error))}"
        ) from None


def _text_of(file_path: Path, path: str) -> bytes:
    """The text of a CSV file in UTF-8, with line ends as polars knows them; `DataError` for any but
    UTF-8 and marked UTF-16."""
    raw = read_at_most(file_path, MOST_BYTES)
    begin = raw[:200].removeprefix(codecs.BOM_UTF8).lstrip().lower()
    for mark, content in CONTENTS.items():
        if begin.startswith(mark.lower()):
            raise DataError(f"{path} is no CSV table by its content, but {content}")
    if raw[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):  # as Excel writes "Unicode text"
        try:
            raw = raw.decode("utf-16").encode()
        except UnicodeDecodeError:
            raise DataError(f"{path} begins as UTF-16, and is damaged further on") from None
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in raw[:64]:
        raise DataError(
            f"{path} is UTF-16 without its mark, UTF-32 or no text at all, and a CSV table needs"
            " UTF-8; save it as UTF-8"
        )
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        problem = (
            f"{path}, line {line}: byte 0x{raw[error.start]:02x} is not UTF-8, which a CSV table"
            " needs; save it as UTF-8"
        )
        raise DataError(problem) from None
    if b"\r" in raw.partition(b"\n")[0].rstrip(b"\r"):
        raw = re.sub(rb"\r(?!\n)", b"\n", raw)  # lines that end as on old Macs
    _check_whole(raw, path)
    return raw.rstrip(b"\r\n")


def _check_whole(raw: bytes, path: str) -> None:
    """Refuse a table that was cut off or copied badly: with null characters in it, or whose last
    line has no end and fewer cells than the first. Raises `DataError`."""
    if b"\0" in raw:
        line = raw.count(b"\n", 0, raw.index(b"\0")) + 1
        raise DataError(
            f"{path}, line {line} holds null characters, which no text has: the file was copied"
            " badly; fetch or save it again"
        )
    last = raw.rpartition(b"\n")[2]
    if not last or b'"' in last or b"\n" not in raw:
        return
    text = plain_table(raw)
    separator = separator_of(text).encode()
    cells = last.count(separator) + 1
    header = _UNQUOTED.sub(b"", text.partition(b"\n")[0]).count(separator) + 1
    if 1 < cells < header:
        line = raw.count(b"\n") + 1
        raise DataError(
            f"{path}, line {line}, its last, has {cells} cells, the first line has"
            f" {header}, and no line break ends it: the file was cut off; fetch it again, or take the"
            " line out"
        )


def _fault_of(text: bytes, path: str, lines_above: int) -> str | None:
    """The sentence about the first line that has more cells than the first one, or whose quotes go
    wrong, if there is one."""
    reader = csv.reader(
        io.StringIO(text.decode("utf-8-sig"), newline=""), strict=True, delimiter=separator_of(text)
    )
    begins, n_first = lines_above + 1, 0
    try:
        for cells in reader:
            n_first = n_first or len(cells)
            if len(cells) > n_first:
                return (
                    f"{path}, line {lines_above + reader.line_num} has {len(cells)} cells, and the"
                    f" first line has {n_first}: put cells that hold a separator into quotes"
                )
            begins = lines_above + reader.line_num + 1
    except csv.Error as error:
        if "unexpected end" in str(error):
            return (
                f"{path}: a quote that is opened in the row of line {begins} is never closed; close it,"
                " or double it where it is a sign of the text"
            )
        return (
            f"{path}, line {begins}: a quote begins a cell there and text stands behind the next"
            " quote; put the whole cell into quotes and double those within it, or take them out"
        )
    return None


def has_column(rows: DataFrame, name: str, path: str, field: str) -> str:
    """`name` if the table has it, else an `InputError` on `field` that names the nearest column."""
    if name not in rows.columns:
        raise unknown(field, f"column of {path}", name, rows.columns)
    return name


def texts(rows: DataFrame, name: str, path: str) -> Series:
    """A column as text, white space around it taken off; `DataError` for a cell without a value or
    a type that has no names."""
    import polars

    column = rows.get_column(name)
    kind = column.dtype
    if kind.is_nested() or kind in (polars.Binary, polars.Object):
        raise DataError(
            f"{path}, column {name!r} holds {str(kind).lower()} values, and an attribute needs"
            " text, numbers or true/false"
        )
    try:
        text = column.cast(polars.String).str.strip_chars()
    except polars.exceptions.PolarsError:
        raise DataError(
            f"{path}, column {name!r} holds {str(kind).lower()} values, which have no text to name"
            " them by; leave it out with the setting 'columns'"
        ) from None
    missing = (text.is_null() | text.str.to_lowercase().is_in(list(MISSING))).arg_true()
    if len(missing):
        word = text[missing[0]]
        value_words = f"the value {word!r}, which means no value" if word else "no value"
        other_rows = ""
        if len(missing) > 1:
            other_rows = f" ({counted(len(missing) - 1, 'more such row')})"
        problem = f"{path}, column {name!r}, row {missing[0] + 1} has {value_words}{other_rows}"
        raise NoValue(problem, name)
    broken = text.str.contains(r"[\x00-\x1f\x7f]").arg_true()
    if len(broken):
        word = text[broken[0]]
        raise DataError(
            f"{path}, column {name!r}, row {broken[0] + 1} has a line break or another control"
            f" character: {word!r}"
        )
    return text


def one_spelling(rows: DataFrame, name: str, path: str) -> tuple[Series, Spellings]:
    """A column as `texts` has it, what is surely one value made one, and what that is."""
    import polars

    column_texts = texts(rows, name, path)
    spellings = spellings_of_series(rows.get_column(name).cast(polars.String))
    names = {}
    for text, value in spellings.names.items():
        if text.strip() != value:
            names[text.strip()] = value
    return (column_texts.replace(names) if names else column_texts), spellings


def group_codes(text: Series) -> NDArray[np.int64]:
    """Whole numbers that are equal where the texts are, by sorted order: int64 [n]."""
    codes: NDArray[np.int64] = text.rank("dense").to_numpy().astype(np.int64) - 1
    return codes


def unit_codes(
    rows: DataFrame, name: str, path: str
) -> tuple[NDArray[np.int64], UnitDoubts, Notes]:
    """The units that a column makes, int64 [n], those of its values that may be one, and what was
    made one."""
    text, spellings = one_spelling(rows, name, path)
    codes = group_codes(text)
    groups = spellings_of_series(text).doubts
    doubtful = [value for group in groups for value in group]
    if doubtful:
        doubtful_rows = text.is_in(doubtful).arg_true().to_list()
    else:
        doubtful_rows = []
    units = {str(text[doubtful_row]): int(codes[doubtful_row]) for doubtful_row in doubtful_rows}
    unit_doubts = UnitDoubts(name, groups, units)
    return (codes, unit_doubts, ((("", sentence),) if (sentence := spellings.said(name)) else ()))


def attribute_table(
    rows: DataFrame, columns: Sequence[str], path: str
) -> tuple[AttributeTable, Notes]:
    """The attribute table of some columns, and of each what was made one value.

    Values are in numeric order where all are numbers, else sorted as text.
    """
    read = [(name, *one_spelling(rows, name, path)) for name in columns]
    coded_columns = [_attribute(text, name, path) for name, text, _ in read]
    attributes = tuple(attribute for attribute, _ in coded_columns)
    table = AttributeTable(attributes, np.stack([codes for _, codes in coded_columns]))
    return table, tuple(
        (name, sentence) for name, _, spellings in read if (sentence := spellings.said(name))
    )


def _attribute(text: Series, name: str, path: str) -> tuple[Attribute, NDArray[np.int64]]:
    import polars

    distinct = text.unique().sort()
    numbers = distinct.cast(polars.Float64, strict=False)
    numeric = not numbers.is_null().any() and bool(numbers.is_finite().all())
    are_many = 2 * len(distinct) > len(text) and len(distinct) > MANY_NUMBERS
    problem = ""
    if numeric and are_many and bool((numbers != numbers.round()).any()):
        problem = f"{len(distinct):,} different numbers in {len(text):,} rows"
    elif len(distinct) > MOST_VALUES:
        problem = f"{len(distinct):,} different values, more than {MOST_VALUES:,}"
    if problem:
        advice = "leave it out with the setting 'columns', or put it into a few classes"
        raise DataError(
            f"{path}, column {name!r} holds {problem}, too many for an attribute: {advice}"
        )
    if numeric:
        order = np.lexsort((np.arange(len(distinct)), numbers.to_numpy()))
        distinct = distinct[order.tolist()]
    return Attribute(name, tuple(distinct.to_list())), codes_of(text, distinct)


def codes_of(cells: Series, distinct: Series) -> NDArray[np.int64]:
    """The place in `distinct`, which holds each value once, of every cell: int64 [n]. A cell without
    a value has the place of null."""
    import polars

    code_of = polars.DataFrame({"cell": distinct, "code": np.arange(len(distinct))})
    coded_cells = cells.to_frame("cell").join(
        code_of, on="cell", how="left", nulls_equal=True, maintain_order="left"
    )
    codes: NDArray[np.int64] = coded_cells.get_column("code").to_numpy().astype(np.int64)
    return codes


def _first_sentence(text: str) -> str:
    return one_line(text.strip().split("\n\n")[0], 200)
