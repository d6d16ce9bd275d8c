// Returns what is wrong with the page: width, contrast (WCAG AA), labels, headings, landmarks.
(() => {
  const found = [];
  const name = (e) => `<${e.tagName.toLowerCase()} ${e.id || e.className || ""}> ${(e.textContent || "").trim().slice(0, 40)}`;
  const shown = (e) => e.getClientRects().length > 0 && getComputedStyle(e).visibility === "visible";

  const width = document.documentElement.scrollWidth;
  if (width > innerWidth) found.push(`it is ${width} pixels wide, of ${innerWidth}`);

  const parts = (colour) => {
    const [r, g, b, a = 1] = colour.match(/[\d.]+/g).map(Number);
    return [r, g, b, a];
  };
  const light = ([r, g, b]) => {
    const one = (c) => ((c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * one(r) + 0.7152 * one(g) + 0.0722 * one(b);
  };
  const back = (e) => {
    for (; e; e = e.parentElement) {
      const colour = parts(getComputedStyle(e).backgroundColor);
      if (colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const ratio = (one, other) => {
    const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const e = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !shown(e)) continue;
    const style = getComputedStyle(e);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const colour = e.closest("svg") ? style.fill : style.color;
    const contrast = ratio(parts(colour), back(e));
    if (contrast < (large ? 3 : 4.5)) found.push(`contrast ${contrast.toFixed(2)}: ${name(e)}`);
  }

  for (const e of document.querySelectorAll("input:not([type=hidden]), select, textarea")) {
    if (![...e.labels].some((label) => label.textContent.trim())) found.push(`no label: ${name(e)} ${e.name}`);
    if (ratio(parts(getComputedStyle(e).borderColor), back(e.parentElement)) < 3) found.push(`faint border: ${e.name}`);
  }
  for (const e of document.querySelectorAll("a, button")) {
    if (!e.textContent.trim() && !e.getAttribute("aria-label")) found.push(`no text: ${e.outerHTML}`);
  }
  for (const e of document.querySelectorAll("svg, img")) {
    if (!e.getAttribute("aria-label") && !e.querySelector("title") && !e.alt) found.push(`no name: ${name(e)}`);
  }
  const levels = [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].map((e) => Number(e.tagName[1]));
  if (levels.filter((level) => level === 1).length !== 1) found.push(`headings of level 1: ${levels}`);
  levels.forEach((level, at) => at && level > levels[at - 1] + 1 && found.push(`a level is left out: ${levels}`));
  for (const e of document.querySelectorAll("th")) {
    if (!e.scope) found.push(`no scope: ${name(e)}`);
  }
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  if (new Set(ids).size !== ids.length) found.push(`an id occurs twice: ${ids}`);
  if (document.querySelectorAll("main").length !== 1) found.push("not one main part");
  if (!document.documentElement.lang) found.push("no language");
  if (!document.title) found.push("no title");
  return found;
})()
