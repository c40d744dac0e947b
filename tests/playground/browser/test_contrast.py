"""Every text stands out from what is behind it, in light and in dark: a ratio of at least 4.5 (WCAG AA)."""

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.slow

FAINT = """() => {
  const parse = text => { const n = text.match(/[\\d.]+/g).map(Number); return [n[0], n[1], n[2], n[3] ?? 1]; };
  const over = (top, below) => top.slice(0, 3).map((x, i) => x * top[3] + below[i] * (1 - top[3]));
  const light = rgb => rgb.map(x => x / 255).map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4)
    .reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = text => { // any notation of CSS
    if (text.startsWith('rgb')) return parse(text);
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255];
  };
  const behind = element => {
    const all = [];
    for (let e = element; e; e = e.parentElement) all.unshift(rgba(getComputedStyle(e).backgroundColor));
    return all.reduce((below, top) => over(top, below), [255, 255, 255]);
  };
  const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement, box = element.getBoundingClientRect();
    if (!node.textContent.trim() || box.width < 2 || box.height < 2 || !element.checkVisibility()) continue;
    if (element.closest('script, style, svg, :disabled, #fw-draw label')) continue;
    const back = behind(element), front = over(rgba(getComputedStyle(element).color), back);
    const [a, b] = [light(front), light(back)].sort((x, y) => y - x), ratio = (a + 0.05) / (b + 0.05);
    const name = `${element.tagName}.${element.className}: ${node.textContent.trim().slice(0, 40)}`;
    if (ratio < 4.5) found.push(`${ratio.toFixed(2)} ${name}`);
  }
  return [...new Set(found)];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out(open_page: Callable[..., Any], address: str, scheme: str) -> None:
    page = open_page(address, scheme=scheme)
    page.wait_for_selector("#fw-view .fw-memory")
    page.click("#fw-write")
    page.wait_for_selector("#fw-history li")
    faint = page.evaluate(FAINT)
    page.get_by_role("tab", name="Inside").click()
    page.fill("#fw-text textarea", "the cat sat on the mat")
    page.click("#fw-read-text")
    page.wait_for_selector("#fw-tokens [data-token]")
    for tab in ("Inside", "Capacity", "Translate"):
        page.get_by_role("tab", name=tab).click()
        page.wait_for_timeout(200)
        faint += page.evaluate(FAINT)
    assert faint == []
