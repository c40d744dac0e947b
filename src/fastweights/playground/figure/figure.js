// A memory to play with. Made by `python -m fastweights.playground.figure`; do not edit.
// A write makes the reads R of all keys R A + v b: A and b of every key were recorded from the library.
(() => {
  const recorded = /* recorded */ null;
  const side = 7, root = document.getElementById("fw-figure");
  if (!root) return;
  const names = recorded.keys.map(key => key[0]), pictures = Object.keys(recorded.pictures);
  const chosen = { key: 0, picture: pictures[0] };
  let history = [], past = [];

  // A read is a mixture of pictures: one row for each picture, one column for each key.
  const empty = () => recorded.memories.map(() => pictures.map(() => names.map(() => 0)));

  function write(reads, memory, key, picture) {
    const { kept, added } = recorded.memories[memory];
    return reads.map((row, number) => {
      const after = row.map((x, column) => x + (pictures[number] === picture ? added[key][column] : 0));
      for (const [from, to, factor] of kept[key]) after[to] += row[from] * factor;
      return after;
    });
  }

  const states = () => history.reduce(
    (all, [key, picture]) => all.map((reads, memory) => write(reads, memory, key, picture)), empty());

  const inWords = mixture => mixture.map((share, i) => [share, pictures[i]]).filter(([share]) => Math.abs(share) >= 0.005)
    .sort((a, b) => Math.abs(b[0]) - Math.abs(a[0])).slice(0, 3)
    .map(([share, name]) => `${share.toFixed(2).replace("-", "−")} ${name}`).join(" +\u00a0").replaceAll("+\u00a0−", "−\u00a0") || "nothing";

  function colour(ink) { // white, blue at 1, orange at 2, purple between them; what is below zero is grey
    const mix = (a, b, t) => a.map((x, i) => Math.round(x + (b[i] - x) * t));
    const [white, blue, purple, orange, grey] = recorded.colours;
    if (ink < 0) return mix(white, grey, Math.min(-ink, 1));
    if (ink <= 1) return mix(white, blue, ink);
    return ink <= 1.5 ? mix(blue, purple, 2 * ink - 2) : mix(purple, orange, Math.min(2 * ink - 3, 1));
  }

  function paint(canvas, mixture) {
    const ink = Array.from({ length: side * side }, (_, pixel) =>
      mixture.reduce((sum, share, i) => sum + share * Number(recorded.pictures[pictures[i]][pixel]), 0));
    canvas.width = canvas.height = side;
    const image = canvas.getContext("2d").createImageData(side, side);
    ink.forEach((x, i) => image.data.set([...colour(x), 255], 4 * i));
    canvas.getContext("2d").putImageData(image, 0, 0);
  }

  function make(kind, properties = {}, ...children) {
    const { data, ...rest } = properties, element = Object.assign(document.createElement(kind), rest);
    Object.assign(element.dataset, data || {});
    element.append(...children);
    return element;
  }

  function choice(legend, name, options, current, pick, mark) {
    return make("fieldset", {}, make("legend", { textContent: legend }), ...options.map((option, i) => {
      const input = make("input", { type: "radio", name: `fw-${name}`, value: option, checked: option === current });
      input.addEventListener("change", () => { pick(option, i); show(); });
      return make("label", {}, input, ...(mark ? [mark(i)] : []), option);
    }));
  }

  const dot = i => { const d = make("span", { className: "fw-dot" }); d.style.background = recorded.keys[i][1]; return d; };
  const button = (text, act) => { const b = make("button", { type: "button", textContent: text });
    b.addEventListener("click", () => { act(); show(); }); return b; };

  const said = make("p", { className: "fw-said" }), panels = make("div", { className: "fw-panels" });
  said.setAttribute("aria-live", "polite");
  const undo = button("Undo", () => { if (history.length) past.push(history.pop()); });
  const redo = button("Redo", () => { if (past.length) history.push(past.pop()); });
  root.replaceChildren(
    choice("Key", "key", names, names[0], (_, i) => { chosen.key = i; }, dot),
    choice("Picture", "picture", pictures, chosen.picture, name => { chosen.picture = name; }),
    make("p", {}, button("Write", () => { history.push([chosen.key, chosen.picture]); past = []; }), undo, redo,
      button("Empty both memories", () => { history = []; past = []; })),
    said, panels);

  function show() {
    undo.disabled = !history.length;
    redo.disabled = !past.length;
    const key = chosen.key, all = states(), last = history[history.length - 1];
    said.textContent = (last ? `Written: ${names[last[0]]} ← ${last[1]}` : "Both memories are empty") +
      `; ${history.length} ${history.length === 1 ? "write" : "writes"} so far. Key in use: ${names[key]}.`;
    panels.replaceChildren(...all.map((reads, memory) => {
      const cells = names.map((name, i) => {
        const canvas = make("canvas"), mixture = reads.map(row => row[i]), words = inWords(mixture);
        paint(canvas, mixture);
        canvas.setAttribute("role", "img");
        canvas.setAttribute("aria-label", `${name} retrieves ${words}`);
        return make("figure", { className: i === key ? "fw-chosen" : "", data: { key: name, read: mixture.join(" ") } },
          canvas, make("figcaption", {}, dot(i), name, make("br"), words));
      });
      return make("section", { data: { memory: String(memory) } },
        make("h4", { textContent: recorded.memories[memory].name }), make("div", { className: "fw-cells" }, ...cells));
    }));
  }
  show();
})();
