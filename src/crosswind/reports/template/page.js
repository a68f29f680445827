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

  ask(places.filter(open));
})();
