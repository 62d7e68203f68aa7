"""What a reader with any eyes, ears or hands needs of a page, looked for in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Page

#: What WCAG AA wants of text: 4.5 to 1, of large text 3 to 1.
_CONTRAST = """() => {
  const parse = (text) => { const n = text.match(/[\\d.]+/g).map(Number); return [n[0], n[1], n[2], n[3] ?? 1]; };
  const over = (top, below) => top.slice(0, 3).map((c, i) => c * top[3] + below[i] * (1 - top[3]));
  const light = (rgb) => rgb.map(c => c / 255).map(c => c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
  const behind = (one) => {
    const layers = [];
    for (let at = one; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour[3] > 0) layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
  };
  const found = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const one = texts.currentNode.parentElement;
    if (!texts.currentNode.textContent.trim() || !one.checkVisibility({visibilityProperty: true})) continue;
    if (one.closest("svg, .hidden-text, [disabled], script, option, .skip")) continue;
    const style = getComputedStyle(one), below = behind(one), ink = light(over(parse(style.color), below));
    const paper = light(below), ratio = (Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const said = texts.currentNode.textContent.trim().slice(0, 40);
    if (ratio < (large ? 3 : 4.5)) found.push(`${ratio.toFixed(2)} ${said}`);
  }
  return [...new Set(found)];
}"""

_NAMES = """() => {
  const found = [];
  const text = (one) => (one.getAttribute("aria-label") || one.textContent || one.title || "").trim();
  const named = (one) => one.getAttribute("aria-labelledby")
    ? one.getAttribute("aria-labelledby").split(" ").every(id => document.getElementById(id)) : text(one);
  for (const one of document.querySelectorAll(":is(button, a[href], summary):not([hidden])")) {
    const picture = one.querySelector("img[alt]:not([alt='']), svg[aria-label]");
    if (!named(one) && !picture) found.push("no name: " + one.outerHTML.slice(0, 120));
  }
  for (const one of document.querySelectorAll("input:not([type=hidden]), select, textarea"))
    if (!(one.labels && one.labels.length) && !one.getAttribute("aria-label") && !one.getAttribute("aria-labelledby"))
      found.push("no label: " + one.outerHTML.slice(0, 120));
  const silent = ["img:not([alt])", "svg[role=img]:not([aria-label])", "dialog:not([aria-labelledby], [aria-label])"];
  for (const one of document.querySelectorAll(silent.join()))
    found.push("no text: " + one.outerHTML.slice(0, 120));
  const ids = [...document.querySelectorAll("[id]")].map(one => one.id);
  for (const id of new Set(ids.filter((id, at) => ids.indexOf(id) !== at))) found.push("id twice: " + id);
  if (document.querySelectorAll("h1").length !== 1) found.push("h1: " + document.querySelectorAll("h1").length);
  if (document.querySelectorAll("main").length !== 1) found.push("main");
  if (!["en", "ja"].includes(document.documentElement.lang)) found.push("lang");
  if (!document.title) found.push("title");
  for (const one of document.querySelectorAll("[tabindex]")) if (one.tabIndex > 0) found.push("tabindex > 0");
  return found;
}"""

_TOO_WIDE = """() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  const scrolls = (one) => { for (let at = one; at; at = at.parentElement)
    if (["auto", "scroll", "hidden", "clip"].includes(getComputedStyle(at).overflowX)) return true; };
  return [...document.body.querySelectorAll("*")]
    .filter(one => one.getBoundingClientRect().right > width + 1 && !scrolls(one.parentElement))
    .map(one => one.outerHTML.slice(0, 120)).slice(0, 5).concat("scrolls sideways");
}"""


def faint_texts(page: Page) -> list[str]:
    """Texts that do not stand out from what is behind them."""
    return _found(page, _CONTRAST)


#: Tables and articles are what readers jump between.
_NEED_A_NAME = (
    "button",
    "link",
    "textbox",
    "searchbox",
    "combobox",
    "checkbox",
    "spinbutton",
    "image",
    "table",
    "article",
)
_CUT_TABLES = """() => [...document.querySelectorAll('.scroll')]
  .filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.textContent.trim().slice(0, 60))"""


def unnamed_things(page: Page) -> list[str]:
    """What a screen reader could not say, or would say wrongly."""
    return _found(page, _NAMES)


def unspoken(page: Page) -> list[str]:
    """What the browser's own accessibility tree has no name for."""
    session = page.context.new_cdp_session(page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    session.detach()
    seen = (node for node in nodes if not node.get("ignored"))
    roles = (node["role"]["value"] for node in seen if not node.get("name", {}).get("value", "").strip())
    return [role for role in roles if role in _NEED_A_NAME]


def cut_tables(page: Page) -> list[str]:
    """Tables that are wider than their place, so that figures at the side are out of sight."""
    return _found(page, _CUT_TABLES)


def too_wide(page: Page) -> list[str]:
    """What makes a page scroll sideways."""
    return _found(page, _TOO_WIDE)


def _found(page: Page, script: str) -> list[str]:
    found: Any = page.evaluate(script)
    return [str(one) for one in found]
