"use strict";
(() => {
  const { themes, figures } = JSON.parse(document.getElementById("figures").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const places = [...document.querySelectorAll("[data-figure]")];
  const views = new Map();
  const widths = new Map();
  const queue = [];
  let busy = false;

  // The figure as this page shows it: colours of the scheme, and as wide as there is room.
  function shown(name, room) {
    const theme = themes[dark.matches ? "dark" : "light"];
    const spec = structuredClone(figures[name].spec);
    for (const parameter of spec.params) parameter.value = theme.params[parameter.name] ?? parameter.value;
    const { fit, panels, names } = figures[name];
    if (fit === "wrap") {
      // As many panels side by side as there is room for, spread evenly over the rows that this takes.
      const most = Math.max(1, Math.min(4, Math.floor((room - names + 20) / 220)));
      const across = Math.ceil(panels / Math.ceil(panels / most));
      spec.columns = across;
      spec.spec.width = Math.max(120, Math.min(320, Math.floor((room - names) / across) - 22));
    } else if (fit === "grid") {
      spec.width.step = Math.max(50, Math.min(84, Math.floor((room - names - 4) / panels)));
    } else if (fit === "bars") {
      spec.width = Math.max(140, Math.min(620, room - names - 24));
    }
    return [spec, { ...theme.config, background: "transparent", aria: false }];
  }

  async function draw(place) {
    const name = place.dataset.figure;
    const room = place.clientWidth;
    const [spec, config] = shown(name, room);
    widths.set(place, room);
    try {
      views.get(place)?.finalize();
      const options = { mode: "vega-lite", actions: false, renderer: "svg", config, tooltip: { theme: dark.matches ? "dark" : "light" } };
      // Vega names the role of the element that it draws into; the words of the figure stand on the one around it.
      const inside = document.createElement("div");
      inside.ariaHidden = "true";
      place.replaceChildren(inside);
      const result = await vegaEmbed(inside, spec, options);
      views.set(place, result.view);
      place.classList.add("drawn");
      // What is wider than its place scrolls inside it, which the keyboard must reach too.
      if (place.scrollWidth > place.clientWidth + 1) place.tabIndex = 0;
      else place.removeAttribute("tabindex");
    } catch (error) {
      place.innerHTML = '<p class="failed">This figure could not be drawn; its numbers stand below it.</p>';
      console.error(`figure ${name}: ${error}`);
    }
  }

  // One figure at a time, and the browser may answer between two of them.
  async function work() {
    if (busy) return;
    busy = true;
    document.documentElement.dataset.drawing = "yes";
    while (queue.length) {
      const place = queue.shift();
      if (!place.closest("details:not([open])")) await draw(place);
      await new Promise((next) => setTimeout(next));
    }
    busy = false;
    document.documentElement.dataset.drawing = "no";
  }

  function ask(some) {
    for (const place of some) if (!queue.includes(place)) queue.push(place);
    work();
  }

  const open = (place) => !place.closest("details:not([open])");
  document.addEventListener("toggle", (event) => {
    if (event.target.open) ask([...event.target.querySelectorAll("[data-figure]")].filter((place) => open(place) && !views.has(place)));
  }, true);
  dark.addEventListener("change", () => ask(places.filter((place) => views.has(place))));
  let later;
  window.addEventListener("resize", () => {
    clearTimeout(later);
    later = setTimeout(() => ask(places.filter((place) => {
      return views.has(place) && open(place) && figures[place.dataset.figure].fit !== "step" && Math.abs(place.clientWidth - widths.get(place)) > 8;
    })), 200);
  });

  function say(words) {
    document.getElementById("said").textContent = words;
  }

  async function copy(id, button) {
    const block = document.getElementById(id);
    try {
      await navigator.clipboard.writeText(block.textContent);
    } catch {
      // The browser forbids it; a selection can be copied everywhere.
      window.getSelection().selectAllChildren(block);
      say("Selected; press Ctrl+C to copy.");
      return;
    }
    say("Copied.");
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }

  async function save(form, place) {
    const view = views.get(place);
    if (!view) return;
    const link = document.createElement("a");
    link.download = `${place.dataset.figure}.${form}`;
    link.href = await view.toImageURL(form, 2);
    link.click();
    say(`Saved ${link.download}.`);
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.dataset.copy) copy(button.dataset.copy, button);
    if (button.dataset.save) save(button.dataset.save, button.closest("figure").querySelector("[data-figure]"));
  });

  // A term shows its meaning on hover, focus and tap; a click of the mouse or Enter leads to the glossary.
  const bubble = document.createElement("div");
  bubble.className = "meaning";
  bubble.hidden = true;
  bubble.ariaHidden = "true"; // screen readers have the same words as the link's description
  let shownTerm = null;
  let leaving;
  function explain(term) {
    clearTimeout(leaving);
    if (!bubble.isConnected) document.body.append(bubble);
    const meaning = document.getElementById(term.getAttribute("aria-describedby"));
    if (!meaning) return;
    bubble.textContent = meaning.textContent;
    bubble.hidden = false;
    const at = term.getBoundingClientRect();
    const left = Math.max(8, Math.min(at.left, document.documentElement.clientWidth - bubble.offsetWidth - 8));
    bubble.style.left = `${left + window.scrollX}px`;
    const below = at.bottom + bubble.offsetHeight + 8 < window.innerHeight;
    bubble.style.top = `${(below ? at.bottom + 4 : at.top - bubble.offsetHeight - 4) + window.scrollY}px`;
    shownTerm = term;
  }
  function hush() {
    bubble.hidden = true;
    shownTerm = null;
  }
  const termOf = (event) => event.target.closest?.("a.term");
  document.addEventListener("mouseover", (event) => {
    if (termOf(event)) explain(termOf(event));
    else if (event.target === bubble) clearTimeout(leaving);
  });
  document.addEventListener("mouseout", (event) => {
    if (termOf(event) || event.target === bubble) leaving = setTimeout(hush, 250);
  });
  document.addEventListener("focusin", (event) => (termOf(event) ? explain(termOf(event)) : hush()));
  document.addEventListener("focusout", (event) => { if (termOf(event)) hush(); });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hush(); });
  let touched = false;
  document.addEventListener("pointerdown", (event) => {
    touched = event.pointerType === "touch";
    if (shownTerm && !termOf(event) && event.target !== bubble) hush();
  });
  document.addEventListener("click", (event) => {
    const term = termOf(event);
    if (!term || !touched || event.detail === 0) return;
    event.preventDefault();
    explain(term);
  });

  // What a link leads to may be folded, as in print everything is.
  function unfold() {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let one = target.closest("details"); one; one = one.parentElement.closest("details")) one.open = true;
    target.scrollIntoView();
  }
  window.addEventListener("hashchange", unfold);
  const folded = [];
  // Numbers behind a figure are printed where they are a table for paper.
  const ON_PAPER = { rows: 40, columns: 12 };
  function isForPaper(numbers) {
    // Their figures have a number in each cell, or are curves.
    if (numbers.closest('.cards, [id$="-mistakes"], [id$="-learning-curves"]')) return false;
    const tables = [...numbers.querySelectorAll("table")];
    const large = tables.filter(
      (table) => table.rows.length > ON_PAPER.rows || table.rows[0].cells.length > ON_PAPER.columns);
    for (const table of large) table.parentElement.classList.add("screen");
    return large.length < tables.length;
  }
  window.addEventListener("beforeprint", () => {
    for (const image of document.images) image.loading = "eager";
    for (const one of document.querySelectorAll("details:not([open])")) {
      if (one.matches(".numbers") && !isForPaper(one)) continue;
      folded.push(one);
      one.open = true;
    }
  });
  window.addEventListener("afterprint", () => { for (const one of folded.splice(0)) one.open = false; });

  // Tables sort by the heading of a column, and long ones can be filtered.
  const FILTERED = 8;
  // A number of a method under a shift leads to its runs.
  function linked(table) {
    const article = table.closest("article");
    const runs = article?.querySelector('[data-table="each-run"]');
    const shifts = JSON.parse(article?.dataset.shifts ?? "[]");
    const [first, ...columns] = [...(table.tHead?.rows[0]?.cells ?? [])].map((cell) => cell.textContent.trim());
    if (!runs || runs === table || first !== "method" || !columns.length || !columns.every((name) => shifts.includes(name))) return;
    for (const row of table.tBodies[0].rows) {
      columns.forEach((shift, position) => {
        const cell = row.cells[position + 1];
        if (!/\d/.test(cell.textContent)) return;
        const button = document.createElement("button");
        button.type = "button";
        button.className = "runs";
        button.title = `Show the runs of ${words(row, 0)} under ${shift}`;
        button.append(...cell.childNodes);
        cell.append(button);
        button.addEventListener("click", () => {
          runs.closest("details").open = true;
          sortable(runs);
          const field = runs.closest("details").querySelector(".filter input");
          if (field) {
            field.value = `"${shift}" "${words(row, 0).replace(/ †$/, "")}"`;
            field.dispatchEvent(new Event("input"));
            field.focus();
          }
          runs.closest("details").scrollIntoView();
        });
      });
    }
  }
  const words = (row, column) => row.cells[column]?.textContent.trim() ?? "";
  function sortable(table) {
    const heads = [...(table.tHead?.rows[0]?.cells ?? [])];
    const body = table.tBodies[0];
    if (!body || body.rows.length < 2 || table.dataset.sorts) return;
    table.dataset.sorts = "yes";
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const down = head.ariaSort === "ascending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const value = (row) => parseFloat(words(row, column).replace("\u2212", "-").replace(/,(?=\d{3})/g, ""));
        const rows = [...body.rows].sort((a, b) => {
          const [x, y] = [value(a), value(b)];
          if (isNaN(x) !== isNaN(y)) return isNaN(x) ? 1 : -1; // what has no number stands last
          const order = isNaN(x) ? words(a, column).localeCompare(words(b, column)) : x - y;
          return down ? -order : order;
        });
        body.append(...rows);
      });
    });
    linked(table);
    if (body.rows.length < FILTERED) return;
    const label = document.createElement("label");
    label.className = "filter";
    const field = document.createElement("input");
    field.type = "search";
    label.append("Rows with", field);
    field.addEventListener("input", () => {
      // A word in quotes is a whole cell.
      const sought = field.value.toLowerCase().match(/"[^"]*"|[^\s"]+/g) ?? [];
      for (const row of body.rows) {
        const cells = [...row.cells].map((cell) => cell.textContent.trim().toLowerCase());
        const text = cells.join(" ");
        row.hidden = !sought.every((word) => (word.startsWith('"') ? cells.includes(word.slice(1, -1)) : text.includes(word)));
      }
      say(`${[...body.rows].filter((row) => !row.hidden).length} rows`);
    });
    table.closest(".scroll").before(label);
  }
  // Of a large page only tables that are looked at get their buttons.
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      near.unobserve(entry.target);
      sortable(entry.target);
    }
  }, { rootMargin: "400px" });
  for (const table of document.querySelectorAll("table[data-table]")) near.observe(table);

  unfold();
  ask(places.filter(open));
})();
