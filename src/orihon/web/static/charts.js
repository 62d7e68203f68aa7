// Charts without a library: stacked bars or lines over a row of labels. Each <figure data-chart> holds its figures as JSON:
// {kind, labels, format, series: [{name, color, values}]}. The pointer or the arrow keys go through the columns, the
// legend shows and hides series, colours are those of the style sheet. The table beneath says the same without a script.
"use strict";
const charts = (() => {
  const HEIGHT = 220, TOP = 10, BOTTOM = 22, NS = "http://www.w3.org/2000/svg";
  const svg = (name, attributes = {}, ...children) => {
    const made = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };
  const short = (value) => {
    for (const unit of ["", "k", "M", "G"]) {
      if (Math.abs(value) < 1000 || unit === "G") return `${Number(value.toFixed(Math.abs(value) < 100 && unit ? 1 : 0)).toLocaleString("en")}${unit}`;
      value /= 1000;
    }
  };
  const money = (value) => `$${value.toLocaleString("en", Math.abs(value) < 1 && value ? { minimumFractionDigits: 2, maximumFractionDigits: 4 } : { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
  const formats = { short, money, count: (value) => value.toLocaleString("en") };
  const axisFormats = { short, count: short, money: (value) => (value >= 10 || !value ? `$${short(value)}` : `$${Number(value.toPrecision(2))}`) };

  // Round numbers for the lines of the grid: 1, 2 or 5 of something.
  function ticks(most, whole) {
    if (!(most > 0)) return [0, 1];
    const step = 10 ** Math.floor(Math.log10(most / 4)), wide = most / 4 / step;
    let by = step * (wide > 5 ? 10 : wide > 2 ? 5 : wide > 1 ? 2 : 1);
    if (whole) by = Math.max(1, Math.round(by));
    return Array.from({ length: Math.ceil(most / by - 1e-9) + 1 }, (_, number) => number * by);
  }

  function draw(figure) {
    const data = JSON.parse(figure.querySelector("script[type='application/json']").textContent);
    const hidden = new Set(), format = formats[data.format] || short;
    const place = figure.querySelector("[data-draw]");
    const said = orihon.element("p", { class: "hidden-text", "aria-live": "polite" });
    let at = -1, shape = null;
    const visible = () => data.series.filter((_, number) => !hidden.has(number));
    const column = (index) => {
      const shown = visible(), lines = shown.map((one) => `${one.name}: ${format(one.values[index] || 0)}`);
      if (data.sum && shown.length > 1) lines.push(`${data.sum}: ${format(shown.reduce((sum, one) => sum + (one.values[index] || 0), 0))}`);
      return [data.labels[index], ...lines].join("\n");
    };

    function paint() {
      const width = Math.max(260, place.clientWidth), shown = visible(), number = data.labels.length;
      const stacked = data.kind !== "lines";
      const tops = data.labels.map((_, index) => shown.reduce((sum, one) => (stacked ? sum + Math.max(0, one.values[index] || 0) : Math.max(sum, one.values[index] || 0)), 0));
      const lines = ticks(Math.max(0, ...tops), data.format === "count"), top = lines[lines.length - 1];
      const left = 12 + 6.6 * Math.max(...lines.map((line) => (axisFormats[data.format] || short)(line).length));
      const inner = width - left - 8, high = HEIGHT - TOP - BOTTOM, step = inner / number;
      const y = (value) => TOP + high - (high * value) / top, x = (index) => left + step * (index + 0.5);
      const root = svg("svg", { class: "chart", width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, "aria-hidden": "true" });
      for (const line of lines) {
        root.append(svg("line", { class: line ? "grid" : "axis", x1: left, x2: width - 8, y1: y(line), y2: y(line) }));
        const text = svg("text", { x: left - 6, y: y(line) + 4, "text-anchor": "end" });
        text.textContent = (axisFormats[data.format] || short)(line);
        root.append(text);
      }
      const every = Math.max(1, Math.ceil(52 / step));
      for (let index = (number - 1) % every; index < number; index += every) {
        const text = svg("text", { x: Math.min(Math.max(x(index), left + 14), width - 22), y: HEIGHT - 6, "text-anchor": "middle" });
        text.textContent = data.labels[index].slice(-5);
        root.append(text);
      }
      const cursor = svg("rect", { class: "cursor", y: TOP, height: high, width: step, visibility: "hidden" });
      root.append(cursor);
      if (stacked) bars(root, shown, { x, y, step });
      else paths(root, shown, { x, y, number });
      place.replaceChildren(root, said);
      shape = { root, cursor, left, step, number, x, y, tops };
      if (at >= 0) mark(at);
    }

    function bars(root, shown, { x, y, step }) {
      const wide = Math.max(1, Math.min(34, step * 0.72));
      data.labels.forEach((_, index) => {
        let sum = 0;
        shown.forEach((one) => {
          const value = Math.max(0, one.values[index] || 0);
          if (!value) return;
          const upper = y(sum + value), lower = y(sum);
          root.append(svg("rect", { class: `series ${one.color}`, x: x(index) - wide / 2, y: upper, width: wide, height: Math.max(0.75, lower - upper), rx: Math.min(2, wide / 4) }));
          sum += value;
        });
      });
    }
    function paths(root, shown, { x, y, number }) {
      for (const one of shown) {
        const points = Array.from({ length: number }, (_, index) => `${x(index).toFixed(1)},${y(one.values[index] || 0).toFixed(1)}`);
        root.append(svg("polyline", { class: `line ${one.color}`, points: points.join(" ") }));
      }
    }

    function mark(index, show = false) {
      at = Math.max(0, Math.min(shape.number - 1, index));
      shape.cursor.setAttribute("x", shape.left + shape.step * at);
      shape.cursor.setAttribute("visibility", "visible");
      if (!show) return;
      const box = shape.root.getBoundingClientRect();
      orihon.showTip(column(at), box.left + shape.x(at), box.top + shape.y(shape.tops[at]));
    }
    function leave() {
      at = -1;
      shape.cursor.setAttribute("visibility", "hidden");
      orihon.hideTip();
    }

    place.addEventListener("pointermove", (event) => {
      const box = shape.root.getBoundingClientRect(), index = Math.floor((event.clientX - box.left - shape.left) / shape.step);
      if (index < 0 || index >= shape.number) return leave();
      mark(index, true);
    });
    place.addEventListener("pointerleave", leave);
    place.tabIndex = 0;
    place.addEventListener("focus", () => { if (place.matches(":focus-visible")) { mark(shape.number - 1, true); said.textContent = column(at); } });
    place.addEventListener("blur", leave);
    place.addEventListener("keydown", (event) => {
      const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: shape.number - 1 }[event.key];
      if (event.key === "Escape") leave();
      if (to === undefined) return;
      event.preventDefault();
      mark(to, true);
      said.textContent = column(at);
    });

    const legend = orihon.element("div", { class: "legend" });
    data.series.forEach((one, number) => {
      if (!one.values.some(Boolean)) return;
      legend.append(orihon.element("button", { type: "button", class: "small plain", "aria-pressed": "true", onclick: (event) => {
        if (!hidden.delete(number)) hidden.add(number);
        event.currentTarget.setAttribute("aria-pressed", String(!hidden.has(number)));
        paint();
      } }, orihon.element("i", { class: one.color }), one.name));
    });
    place.before(legend);
    new ResizeObserver(() => { if (shape === null || Math.abs(place.clientWidth - shape.root.clientWidth) > 1) paint(); }).observe(place);
    paint();
  }

  const drawAll = (root = document) => root.querySelectorAll("[data-chart]").forEach(draw);
  document.addEventListener("DOMContentLoaded", () => drawAll());
  return { drawAll };
})();
