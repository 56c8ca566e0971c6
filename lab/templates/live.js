"use strict";
(() => {
  const light = document.getElementById("live");
  let timer = 0, again = false, busy = false;

  // The page is fetched anew and its content put in place; what was open stays open.
  async function refresh() {
    if (busy) { again = true; return; }
    busy = true;
    try {
      const answer = await fetch(location.href, { cache: "no-store" });
      if (!answer.ok) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      const next = fresh.getElementById("content"), now = document.getElementById("content");
      if (!next || next.innerHTML === now.innerHTML) return;
      const was = new Map([...now.querySelectorAll("details")].map((d, at) => [key(d, at), d.open]));
      next.querySelectorAll("details").forEach((d, at) => {
        const open = was.get(key(d, at));
        if (open !== undefined) d.open = open;
      });
      for (const input of next.querySelectorAll("input[id]")) {
        const was = document.getElementById(input.id);
        if (was) input.value = was.value;
      }
      const active = document.activeElement;
      const focused = active && active.getAttribute("href"), id = active && active.id;
      now.replaceWith(next);
      if (focused) next.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
      else if (id) document.getElementById(id)?.focus({ preventScroll: true });
      document.title = fresh.title;
    } catch { /* the VIM is away; the mark at the top shows that */ } finally {
      busy = false;
      if (again) { again = false; soon(); }
    }
  }
  const key = (details, at) => details.id || "nr" + at + details.querySelector("summary").textContent;
  const soon = () => { clearTimeout(timer); timer = setTimeout(refresh, 250); };

  const stream = new EventSource("/live");
  stream.onopen = () => { light.textContent = "live"; light.classList.remove("off"); };
  stream.onerror = () => { light.textContent = stream.readyState === EventSource.CLOSED ? "not live, reload" : "not connected"; light.classList.add("off"); };
  stream.onmessage = soon;
})();
