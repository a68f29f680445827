"""Parquet files that end a reader are refused as other damaged ones are; rows come whole through
the process that reads them."""

from __future__ import annotations

import base64
import subprocess
import sys
import zlib
from pathlib import Path

import polars
import pytest
from polars.testing import assert_frame_equal

from crosswind.core.errors import DataError, InputError
from crosswind.data import tabular
from crosswind.data.tabular import read_table

# 24 rows of five columns, one byte changed: a run of 2^61 missing values, at which polars 1.44
# aborts.
ABORTS = (
    b"c-oy-&2JM&6d!x-jfo5mNoKT*R#Bj2iqt5q*B`N~7BUXuLl|L4r6m#<Cqzz3T3b%Qj(W)nMODQyia2s>%83J~mIG3&s>*=_2h>A_`Ug~q6UV-J^O2+tf^;"
    b">0zu(ULoHsKoSH*OOCg`>Uqe4SU2uZ>(9BX~kkR)SBWJuPKoFREb3WkguQZ%F_i7Nw!mSrr9EX!J!vn+2}!Lo77ik8_Nk<Ag=9FfftVGc^@7#$mhCHGO6x"
    b"<P@QN@4&niQZrsmyL)edxqD=ccoK5{Br->@b^nU{!G(;p16I!muS^j7ARpM`!fN9zjk<PpE%IoVLDs^AUjV?Bb31?+fzo$=)BY}2USe0XKQPVCUgO@Rm}b"
    b"%27|A;{MY1L{UQ4h9nwW4;5WN;d)@(T&)?jq1_!3SgtXa}dV71@uHBt$E;VnrG5@_748ES?&wBpt3;BME!_Y@dMrws9GbkgJS(G`Hd6Wf|<0y+LOAdO43N"
    b"i{J1z80-1$hMp1>*{e3RILxMTu0DNJWXV`y7dQtK`L7;d>kgr?b$+Zaj5h@Xa)Ta%fKki2l6;W0cMVHG8dg=c5U`S8FyG+4H<StMHY^HyX)=f`rDD#<a#h"
    b"jr|%2H8PE!#$y@-jYArTH6GV^LgR-TPih>|$S2H_Xs<s)TsWm&?8{#c4F3G^r*B)fe>CpvO9NO^m(*ukVb3zqoy%j@c-~+a@HpF9XuK4qed4TH3Y98#z+O"
    b"9ag%PA{E?v-cJw?CJbTe&dpC6{MBw0n=U%HrRH=8T8m(cV`TzwcuNF~6F2NSVXrO>y=sN|G9H|D)pns%XCe&FBW&r-obKQ(M)kTSN>Pb0z~^aTIsL%|-(5"
    b"Wn@)GlXv(3J!YV*;DC$cYux({>KNw`(F?CLOMPgpq%i>M}vbN9`^Sj_1KF6D4RVx!a|+`7?d03rN#90)h|C;o?Dpzy6$Z{r{%M{SQbJ|!A}(Lz<akQ)H_a"
    b"H7GhaUBG$ymRnT`ja{iJK4Q+P~;GE>*D=E&SK9r)27U#gJXpDvSD+@G(r`nc!NHHVI4U@N=ld4&nuZ#9r)Fe7gUDKXQ-?<{~v-Jx_vG@*q)OTj2{jJ%kd*"
    b"|kLSVrZR%-{S^eGOCJ=b$esUQ_zXnlx>w_lt{i{mZhIm7SzBD5q=Kgekc$i8a|b(=8!RV?8xg$@jSn=fk=XpApZkHkaz{W&Z};hTVhA!56v;|5W|~6hU;G"
)


@pytest.mark.slow
def test_rows_come_whole(tmp_path: Path) -> None:
    rows = polars.DataFrame(
        {
            "path": ["a", None, "é"],
            "y": [1, 2, -(2**60)],
            "x": [0.5, float("nan"), None],
            "kind": polars.Series(["u", "v", "u"], dtype=polars.Categorical),
            "when": polars.Series([0, 1, None], dtype=polars.Date),
            "list": [[1], [], None],
        }
    )
    place = tmp_path / "a[1]*.parquet"  # a pattern only to polars' own reader
    rows.write_parquet(place)
    assert_frame_equal(read_table(str(place), "path"), rows)


@pytest.mark.slow
def test_a_file_at_which_the_reader_aborts_is_one_sentence(tmp_path: Path) -> None:
    place = tmp_path / "rows.parquet"
    place.write_bytes(zlib.decompress(base64.b85decode(ABORTS)))
    done = subprocess.run(
        [sys.executable, "-c", "import polars, sys; polars.read_parquet(sys.argv[1])", place],
        capture_output=True,
        check=False,
    )
    if done.returncode == 0:
        pytest.skip("this polars reads the file")
    with pytest.raises(
        DataError,
        match=(
            r"^\S+rows.parquet (cannot be read as a PARQUET table: parquet: |is damaged: reading it"
            r" ended a process of)"
        ),
    ):
        read_table(str(place), "path")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds a process to its data limit")
def test_a_small_file_of_many_rows_takes_no_more_memory_than_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "rows.parquet"
    polars.DataFrame({"y": polars.zeros(10_000_000, dtype=polars.Int64, eager=True)}).write_parquet(
        place
    )
    assert place.stat().st_size < 2_000_000
    monkeypatch.setattr(tabular, "MOST_ROWS", 9_999_999)
    with pytest.raises(DataError, match="holds 10,000,000 rows, more than 9,999,999$"):
        read_table(str(place), "path")
    monkeypatch.setattr(tabular, "MOST_MEMORY", 60 << 20)
    with pytest.raises(
        DataError, match="is damaged: reading it ended a process of 60 MB of memory"
    ):
        read_table(str(place), "path")


def test_a_folder_of_pictures_is_told_how_a_study_reads_it(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"source: image-folder, options: {path: .*}, label: class"
    ):
        read_table(str(tmp_path), "TABLE")
