(() => {
  const pages = PAGES;
  const root = document.currentScript.dataset.root;
  const bar = document.querySelector("#mdbook-menu-bar, #menu-bar");
  if (!bar) return;
  const decode = document.createElement("textarea");
  for (const page of pages) {
    decode.innerHTML = page.text;
    page.text = decode.value;
    decode.innerHTML = page.title;
    page.title = decode.value;
    page.lower = page.text.toLowerCase();
  }
  const input = document.createElement("input");
  input.type = "search";
  input.placeholder = "搜索";
  input.setAttribute("aria-label", "搜索");
  input.style.cssText = "font-size:inherit;margin:auto 0.5em;padding:0.2em 0.5em;width:9em";
  const results = document.createElement("ul");
  results.setAttribute("aria-live", "polite");
  results.hidden = true;
  results.style.cssText = "margin:0;padding:0.5em 2em;border-bottom:1px solid;max-height:60vh;overflow:auto";
  bar.querySelector(".left-buttons").append(input);
  bar.after(results);
  const show = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = words.length
      ? pages.filter((page) => words.every((word) => page.lower.includes(word)))
      : [];
    // Pages that have the words most often first.
    const count = (page) => words.reduce((sum, word) => sum + page.lower.split(word).length, 0);
    found.sort((a, b) => count(b) - count(a));
    results.replaceChildren(
      ...found.slice(0, 30).map((page) => {
        const at = page.lower.indexOf(words[0]);
        const link = document.createElement("a");
        link.href = root + page.path;
        link.textContent = page.title || page.path;
        const excerpt = document.createElement("div");
        excerpt.textContent = "…" + page.text.slice(Math.max(0, at - 30), at + 60) + "…";
        const item = document.createElement("li");
        item.append(link, excerpt);
        return item;
      }),
    );
    if (words.length && !found.length) results.textContent = "没有找到";
    results.hidden = !words.length;
  };
  input.addEventListener("input", show);
})();
