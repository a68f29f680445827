// A search field above every long table. Rows that hold all of its words stay.
"use strict";
document.querySelectorAll(".md-typeset table").forEach((table, number) => {
  const rows = [...table.querySelectorAll("tbody tr")];
  if (rows.length < 25) return;
  const bar = document.createElement("p");
  const label = document.createElement("label");
  const field = document.createElement("input");
  const count = document.createElement("span");
  field.type = "search";
  field.id = `filter-${number}`;
  field.className = "md-input";
  field.style.maxWidth = "100%";
  label.htmlFor = field.id;
  label.textContent = "Rows with all of these words: ";
  count.setAttribute("role", "status");
  const words = rows.map((row) => row.textContent.toLowerCase());
  const filter = () => {
    const wanted = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, i) => {
      row.hidden = !wanted.every((word) => words[i].includes(word));
      shown += row.hidden ? 0 : 1;
    });
    count.textContent = ` ${shown} of ${rows.length} rows`;
  };
  field.addEventListener("input", filter);
  bar.append(label, field, count);
  (table.closest(".md-typeset__scrollwrap") ?? table).before(bar);
  filter();
});
