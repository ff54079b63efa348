"use strict";
{
  const $ = (id) => document.getElementById(id);
  const views = JSON.parse($("attention").textContent);
  const state = { view: 0, map: "weights", layer: 0, head: 0, row: 0, column: 0 };
  const NAMES = {
    weights: "one head", mean: "mean of the layer", rollout: "rollout up to the layer",
    gradient: "gradient × attention of the layer", relevance: "gradient × attention, all layers",
  };
  const view = () => views[state.view];
  const columns = () => view().columns || view().rows;

  /* The bytes of a view, unpacked: √(w / largest of its matrix) in 255 parts, matrix after matrix. */
  const unpack = async (text) => {
    const packed = atob(text.trim());
    const bytes = new Uint8Array(packed.length);
    for (let i = 0; i < packed.length; i++) bytes[i] = packed.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  };
  const cut = (v, bytes) => {
    const size = v.rows.length * (v.columns || v.rows).length;
    let at = 0;
    v.maps = {};
    for (const [name, scales] of Object.entries(v.scales)) {
      v.maps[name] = scales.map((largest) => ({ largest, bytes: bytes.subarray(at, (at += size)) }));
    }
    v.maps.mean = [];
  };
  const value = (matrix, i) => matrix.largest * (matrix.bytes[i] / 255) ** 2;
  const mean = (v, layer) => {
    if (!v.maps.mean[layer]) {
      const heads = v.maps.weights.slice(layer * v.heads, (layer + 1) * v.heads);
      const sums = new Float32Array(heads[0].bytes.length);
      for (const head of heads) for (let i = 0; i < sums.length; i++) sums[i] += value(head, i) / v.heads;
      const largest = sums.reduce((a, b) => Math.max(a, b), 0);
      v.maps.mean[layer] = { largest, bytes: Uint8Array.from(sums, (w) => Math.round(255 * Math.sqrt(largest && w / largest))) };
    }
    return v.maps.mean[layer];
  };
  const matrix = () => {
    const v = view();
    if (state.map === "weights") return v.maps.weights[state.layer * v.heads + state.head];
    if (state.map === "mean") return mean(v, state.layer);
    return v.maps[state.map][state.map === "relevance" ? 0 : state.layer];
  };

  /* Colours, as the style has them: the middle one stands for the byte whose power is a half. */
  const CONTRAST = 1.4;
  let ramp, quiet, mark, paper;
  const readColours = () => {
    const style = getComputedStyle(document.documentElement);
    const parts = (name) => style.getPropertyValue(name).trim().match(/[0-9a-f]{2}/gi).map((x) => parseInt(x, 16));
    const stops = [parts("--map-0"), parts("--map-1"), parts("--map-2")];
    ramp = Uint32Array.from({ length: 256 }, (_, i) => {
      const at = 2 * (i / 255) ** CONTRAST, from = Math.min(1, Math.floor(at));
      const [r, g, b] = stops[from].map((x, k) => Math.round(x + (stops[from + 1][k] - x) * (at - from)));
      return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
    });
    [quiet, mark, paper] = ["--quiet", "--mark", "--paper"].map((n) => style.getPropertyValue(n).trim());
  };
  const image = (bytes, width, height) => {
    const made = new ImageData(width, height), points = new Uint32Array(made.data.buffer);
    for (let i = 0; i < points.length; i++) points[i] = ramp[bytes[i]];
    return made;
  };

  /* The small pictures: at most 96 points wide; of several weights in a point the largest is shown. */
  const drawSmall = (canvas, bytes, t, s) => {
    const step = Math.max(1, Math.ceil(Math.max(t, s) / 96)), w = Math.ceil(s / step), h = Math.ceil(t / step);
    const small = new Uint8Array(w * h);
    for (let r = 0; r < t; r++) {
      for (let c = 0; c < s; c++) {
        const at = Math.floor(r / step) * w + Math.floor(c / step);
        if (bytes[r * s + c] > small[at]) small[at] = bytes[r * s + c];
      }
    }
    canvas.width = w;
    canvas.height = h;
    canvas.getContext("2d").putImageData(image(small, w, h), 0, 0);
  };
  const element = (tag, text, attributes = {}) => {
    const made = document.createElement(tag);
    if (text !== null) made.textContent = text;
    for (const [name, content] of Object.entries(attributes)) made.setAttribute(name, content);
    return made;
  };
  const makeGrid = () => {
    const v = view(), grid = $("grid"), t = v.rows.length, s = columns().length;
    grid.style.gridTemplateColumns = `1.6rem repeat(${v.heads}, minmax(24px, 1fr))`;
    grid.replaceChildren(element("span", ""), ...Array.from({ length: v.heads }, (_, h) => element("span", h + 1)));
    v.layers.forEach((layer, l) => {
      grid.append(element("button", layer, { type: "button", class: "layer", "data-layer": l, "aria-label": `Layer ${layer}: mean of its heads` }));
      for (let h = 0; h < v.heads; h++) {
        const button = element("button", null, { type: "button", "data-layer": l, "data-head": h, "aria-label": `Layer ${layer}, head ${h + 1}` });
        button.append(document.createElement("canvas"));
        grid.append(button);
        drawSmall(button.firstChild, v.maps.weights[l * v.heads + h].bytes, t, s);
      }
    });
  };

  /* The text. */
  const chip = (tag, token, i) => {
    const [text, joined, special, piece] = token;
    const made = element(tag, text, { "data-token": i, title: `token ${i + 1}: ${piece}` });
    made.className = `${joined ? "joined" : ""} ${special ? "special" : ""}`;
    if (tag === "button") made.type = "button";
    return made;
  };
  const makeTokens = () => {
    const v = view(), apart = v.columns !== null;
    $("rows").replaceChildren(...v.rows.map((token, i) => chip("button", token, i)));
    $("columns").replaceChildren(...(apart ? v.columns.map((token, i) => chip("span", token, i)) : []));
    $("columns").hidden = $("between").hidden = !apart;
  };
  const number = (w) => (w === 0 ? "0" : w < 0.001 ? w.toExponential(1).replace("-", "−") : w < 0.1 ? w.toPrecision(2) : w.toFixed(3));
  const words = (place, ...parts) => {
    place.replaceChildren(...parts.map((part) => (Array.isArray(part) ? element("bdi", part[0], { dir: "auto" }) : part)));
  };
  const showRow = () => {
    const m = matrix(), cols = columns(), s = cols.length;
    const row = cols.map((_, c) => value(m, state.row * s + c)), largest = Math.max(...row);
    const apart = view().columns !== null, chips = $(apart ? "columns" : "rows").children;
    row.forEach((w, c) => chips[c].style.setProperty("--share", largest ? Math.sqrt(w / largest).toFixed(3) : 0));
    [...$("rows").children].forEach((button, i) => {
      button.setAttribute("aria-pressed", i === state.row);
      button.tabIndex = i === state.row ? 0 : -1;
    });
    const best = row.map((w, c) => [w, c]).sort((a, b) => b[0] - a[0]).slice(0, 5).filter(([w]) => w > 0);
    const said = best.flatMap(([w, c], i) => [i ? ", " : "", [cols[c][0]], ` ${number(w)}`]);
    words($("mostly"), [view().rows[state.row][0]], said.length ? " → " : ": nothing", ...said);
  };

  /* The large picture. */
  let size = null;
  const still = document.createElement("canvas"); // all but what moves with the pointer
  const layOut = () => {
    const t = view().rows.length, s = columns().length, room = $("large").clientWidth - 4;
    const context = $("matrix").getContext("2d");
    context.font = "11px system-ui, sans-serif";
    const longest = (tokens) => Math.min(room < 500 ? 56 : 84, 12 + Math.max(8, ...tokens.map(([text]) => context.measureText(text).width)));
    const left = Math.ceil(longest(view().rows)), top = Math.ceil(longest(columns()));
    const cell = Math.max(4, Math.min(44, Math.floor((room - left) / s)));
    size = { t, s, left, top, cell, width: left + s * cell, height: top + t * cell };
    // No more points than every browser allows in a canvas.
    size.scale = Math.min(window.devicePixelRatio || 1, Math.sqrt(16e6 / (size.width * size.height)));
    const canvas = $("matrix");
    for (const one of [canvas, still]) {
      one.width = Math.round(size.width * size.scale);
      one.height = Math.round(size.height * size.scale);
    }
    canvas.style.width = `${size.width}px`;
    canvas.style.height = `${size.height}px`;
  };
  const fitted = (context, text, room) => {
    if (context.measureText(text).width <= room) return text;
    const letters = [...text];
    while (letters.length > 1 && context.measureText(`${letters.join("")}…`).width > room) letters.pop();
    return `${letters.join("")}…`;
  };
  const labels = (context, tokens, along, chosen = null) => {
    const { left, top, cell } = size, gutter = along === "rows" ? left : top;
    const font = Math.max(8, Math.min(11, cell + 1)), step = Math.ceil((font + 1) / cell);
    const draw = (i) => {
      context.save();
      if (along === "rows") context.translate(left - 5, top + (i + 0.5) * cell);
      else {
        context.translate(left + (i + 0.5) * cell, top - 5);
        context.rotate(Math.PI / 2);
      }
      if (i === chosen) {
        context.fillStyle = paper;
        context.fillRect(-gutter, -font * 0.8, gutter + 4, font * 1.6);
      }
      context.fillStyle = i === chosen ? mark : quiet;
      context.fillText(fitted(context, tokens[i][0], gutter - 8), 0, 0);
      context.restore();
    };
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.font = `${chosen === null ? font : `600 ${Math.max(10, font)}`}px system-ui, sans-serif`;
    if (chosen !== null) draw(chosen);
    else for (let i = 0; i < tokens.length; i += step) draw(i);
  };
  const drawStill = () => {
    const context = still.getContext("2d"), { t, s, left, top, cell, width, height, scale } = size;
    const points = document.createElement("canvas");
    points.width = s;
    points.height = t;
    points.getContext("2d").putImageData(image(matrix().bytes, s, t), 0, 0);
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    context.imageSmoothingEnabled = false;
    context.drawImage(points, left, top, s * cell, t * cell);
    labels(context, view().rows, "rows");
    labels(context, columns(), "columns");
  };
  const drawLarge = () => {
    const context = $("matrix").getContext("2d"), { left, top, cell, width, height, scale } = size;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    context.drawImage(still, 0, 0, width, height);
    labels(context, view().rows, "rows", state.row);
    labels(context, columns(), "columns", state.column);
    context.strokeStyle = mark;
    context.lineWidth = 1.5;
    context.strokeRect(left + state.column * cell - 0.75, top + state.row * cell - 0.75, cell + 1.5, cell + 1.5);
  };

  const heading = () => {
    const v = view(), layer = v.layers[state.layer];
    return {
      weights: `Layer ${layer}, head ${state.head + 1}`, mean: `Layer ${layer}, mean of its heads`,
      rollout: `Rollout up to layer ${layer}`, gradient: `Gradient × attention, layer ${layer}`,
      relevance: "Gradient × attention, all layers",
    }[state.map];
  };
  const showCell = () => {
    const w = value(matrix(), state.row * columns().length + state.column);
    words($("cell"), [view().rows[state.row][0]], ` (${state.row + 1}) → `, [columns()[state.column][0]], ` (${state.column + 1}): ${number(w)}`);
    $("cell").dataset.value = w;
  };
  const showPlace = () => {
    showRow();
    showCell();
    drawLarge();
  };
  const showMap = () => {
    const v = view();
    $("one-head").textContent = heading();
    $("map").value = state.map;
    $("layer").value = state.layer;
    $("head").value = state.head;
    $("heads").hidden = state.map !== "weights";
    $("layer").parentElement.hidden = state.map === "relevance";
    const said = Object.entries(v.summary).map(([name, values]) => `${name} ${values[state.layer][state.head]}`);
    $("measured").textContent = state.map === "weights" ? said.join(" · ") : v.score && /gradient|relevance/.test(state.map) ? `of ${v.score}` : "";
    $("middle").textContent = number(matrix().largest * 0.5 ** (2 / CONTRAST));
    $("largest").textContent = `${number(matrix().largest)}, the largest here`;
    for (const button of $("grid").querySelectorAll("button")) {
      const head = button.dataset.head, same = Number(button.dataset.layer) === state.layer;
      const on = same && (head === undefined ? state.map === "mean" : state.map === "weights" && Number(head) === state.head);
      button.setAttribute("aria-pressed", on);
      button.tabIndex = same && Number(head ?? -1) === (state.map === "mean" ? -1 : state.head) ? 0 : -1;
    }
    for (const row of document.querySelectorAll("tr[data-place]")) {
      const mine = row.closest("[data-table]").dataset.table === String(state.view);
      row.classList.toggle("chosen", mine && state.map === "weights" && row.dataset.place === `${state.layer} ${state.head}`);
    }
    drawStill();
    showPlace();
  };
  const showView = () => {
    const v = view(), options = (texts) => texts.map(([key, text]) => element("option", text, { value: key }));
    state.layer = Math.min(state.layer, v.layers.length - 1);
    state.head = Math.min(state.head, v.heads - 1);
    const kinds = Object.keys(NAMES).filter((name) => name === "mean" || v.scales[name]);
    if (!kinds.includes(state.map)) state.map = "weights";
    state.row = Math.max(0, v.rows.findIndex((token) => !token[2]));
    state.column = Math.min(state.row, columns().length - 1);
    $("map").replaceChildren(...options(kinds.map((name) => [name, NAMES[name]])));
    $("layer").replaceChildren(...options(v.layers.map((layer, l) => [l, layer])));
    $("head").replaceChildren(...options(Array.from({ length: v.heads }, (_, h) => [h, h + 1])));
    for (const table of document.querySelectorAll("[data-table]")) table.hidden = Number(table.dataset.table) !== state.view;
    makeGrid();
    makeTokens();
    layOut();
    showMap();
  };

  /* What one can do. */
  const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const clamp = (x, n) => Math.max(0, Math.min(n - 1, x));
  let waiting = false;
  const goTo = (row, column) => {
    if (row === state.row && column === state.column) return;
    Object.assign(state, { row, column });
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      showPlace();
    });
  };
  const openHead = (layer, head) => {
    Object.assign(state, { layer, map: head === undefined ? "mean" : "weights", head: head ?? state.head });
    showMap();
  };
  const listen = () => {
    $("view").addEventListener("change", () => { state.view = Number($("view").value); showView(); });
    $("map").addEventListener("change", () => {
      state.map = $("map").value;
      const read = view().read; // only there does the score depend on the last layer
      if (/gradient|relevance/.test(state.map) && read !== null) state.row = read;
      showMap();
    });
    for (const id of ["layer", "head"]) $(id).addEventListener("change", () => { state[id] = Number($(id).value); showMap(); });

    const place = (event) => {
      const box = $("matrix").getBoundingClientRect(), { left, top, cell, t, s } = size;
      const row = Math.floor((event.clientY - box.top - top) / cell), column = Math.floor((event.clientX - box.left - left) / cell);
      if (row >= 0 && column >= 0 && row < t && column < s) goTo(row, column);
    };
    for (const kind of ["pointermove", "pointerdown"]) $("matrix").addEventListener(kind, place);
    $("matrix").addEventListener("keydown", (event) => {
      const move = MOVES[event.key];
      if (!move) return;
      event.preventDefault();
      goTo(clamp(state.row + move[0], size.t), clamp(state.column + move[1], size.s));
    });

    const token = (event) => {
      const button = event.target.closest("button");
      if (button) goTo(Number(button.dataset.token), state.column);
    };
    for (const kind of ["pointerover", "focusin", "click"]) $("rows").addEventListener(kind, token);
    $("rows").addEventListener("keydown", (event) => {
      const move = MOVES[event.key];
      if (!move) return;
      event.preventDefault();
      $("rows").children[clamp(state.row + move[0] + move[1], view().rows.length)].focus();
    });

    $("grid").addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (button) openHead(Number(button.dataset.layer), button.dataset.head && Number(button.dataset.head));
    });
    $("grid").addEventListener("keydown", (event) => {
      const move = MOVES[event.key], button = event.target.closest("button");
      if (!move || !button) return;
      event.preventDefault();
      const layer = clamp(state.layer + move[0], view().layers.length), from = Number(button.dataset.head ?? -1);
      const head = Math.max(-1, Math.min(view().heads - 1, from + move[1]));
      openHead(layer, head < 0 ? undefined : head);
      $("grid").querySelector(head < 0 ? `.layer[data-layer="${layer}"]` : `[data-layer="${layer}"][data-head="${head}"]`).focus();
    });
    new ResizeObserver(() => { layOut(); drawStill(); drawLarge(); }).observe($("large"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); makeGrid(); showMap(); });
  };
  const sortable = (table) => {
    const rows = [...table.querySelectorAll("tbody tr")], body = table.querySelector("tbody");
    const read = (row, i) => (i === 0 ? rows.indexOf(row) : parseFloat(row.children[i].textContent));
    table.querySelectorAll("thead th").forEach((title, i) => {
      const button = element("button", title.textContent, { type: "button" });
      title.replaceChildren(button);
      button.addEventListener("click", () => {
        const up = i === 0 ? title.getAttribute("aria-sort") !== "ascending" : title.getAttribute("aria-sort") === "descending";
        for (const other of table.querySelectorAll("thead th")) other.removeAttribute("aria-sort");
        title.setAttribute("aria-sort", up ? "ascending" : "descending");
        const key = (row) => { const x = read(row, i); return Number.isNaN(x) ? -Infinity : x; };
        body.append(...[...rows].sort((a, b) => (up ? key(a) - key(b) : key(b) - key(a))));
      });
    });
    for (const row of rows) {
      const button = element("button", row.firstChild.textContent, { type: "button" });
      row.firstChild.replaceChildren(button);
      button.addEventListener("click", () => {
        openHead(...row.dataset.place.split(" ").map(Number));
        $("one-head").scrollIntoView({ block: "nearest" });
      });
    }
  };

  const start = async () => {
    for (const table of document.querySelectorAll("[data-table] table")) sortable(table);
    const packed = [...document.querySelectorAll("[data-packed]")];
    for (let i = 0; i < views.length; i++) cut(views[i], await unpack(packed[i].textContent));
    $("view").replaceChildren(...views.map((v, i) => element("option", v.title, { value: i })));
    $("views").hidden = views.length < 2;
    $("pictures").hidden = false;
    readColours();
    showView();
    listen();
    document.documentElement.classList.add("drawn");
  };
  const fail = (sentence) => {
    $("failed").textContent = sentence;
    $("failed").hidden = false;
    document.documentElement.classList.add("drawn");
  };
  if (typeof DecompressionStream === "undefined") {
    fail("This browser cannot unpack the pictures: it has no DecompressionStream, which every browser has since 2023. The table of heads below needs none.");
  } else {
    start().catch((error) => fail(`The pictures could not be unpacked (${error.message}); the file may be incomplete. The table of heads below is whole.`));
  }
}
