// Airflow's own switch decides between light and dark; without one, the system does. In a frame it is
// a class of Airflow's page, which is of this host; else what Airflow has kept in this browser.
const theme = () => {
  let chosen = null;
  try {
    const outside = window.parent === window ? null : window.parent.document.documentElement.classList;
    chosen = ["dark", "light"].find((name) => outside?.contains(name)) ?? localStorage.getItem("theme");
  } catch {
    // Another host's frame, or a browser that keeps nothing: the system decides.
  }
  if (["dark", "light"].includes(chosen)) document.documentElement.dataset.theme = chosen;
  else delete document.documentElement.dataset.theme;
};
theme();
window.addEventListener("storage", theme);
try {
  if (window.parent !== window) {
    new MutationObserver(theme).observe(window.parent.document.documentElement, { attributeFilter: ["class"] });
  }
} catch {
  // As above.
}
// The zone that was chosen in Airflow, else the reader's own.
const zone = () => {
  try {
    const chosen = (localStorage.getItem("timezone") ?? "").replaceAll('"', "") || undefined;
    new Date().toLocaleString([], { timeZone: chosen });
    return chosen;
  } catch {
    return undefined;
  }
};
// Times in that zone, which is named; a run that goes on is followed without loading the page anew.
const here = () => {
  for (const time of document.querySelectorAll("time[datetime]")) {
    const moment = new Date(time.dateTime);
    if (isNaN(moment) || time.title) continue;
    time.title = time.textContent;
    time.textContent = moment.toLocaleString([], {
      year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit",
      timeZone: zone(), timeZoneName: "short",
    });
  }
};
// What tells how far the run is: as long as that stays, nothing of the page is touched, neither the
// focus nor what is open nor a button that somebody is about to press.
const progress = (page) => page.querySelector("[aria-label=Progress]")?.outerHTML;
let last = progress(document);
const follow = async () => {
  if (!document.querySelector("[data-follow]")) return;
  try {
    const answer = await fetch(location.href);
    const text = answer.ok ? await answer.text() : "";
    const page = new DOMParser().parseFromString(text, "text/html");
    if (answer.ok && progress(page) !== last) {
      document.querySelector("main").replaceWith(page.querySelector("main"));
      document.title = page.title;
      last = progress(document);
      here();
    }
  } catch {
    // The server is away for a moment: asked again.
  }
  setTimeout(follow, 3000);
};
// The overview comes anew by itself, but for a part in which somebody is at work.
const refresh = async () => {
  const parts = [...document.querySelectorAll("[data-refresh]")];
  if (!parts.length) return;
  try {
    const answer = document.hidden ? null : await fetch(location.href);
    if (answer?.ok) {
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const others = [...page.querySelectorAll("[data-refresh]")];
      parts.forEach((part, i) => {
        if (others[i] && !part.contains(document.activeElement)) part.replaceWith(others[i]);
      });
      here();
    }
  } catch {
    // The server is away for a moment: asked again.
  }
  later();
};
const later = () => {
  const part = document.querySelector("[data-refresh]");
  if (part) setTimeout(refresh, 1000 * part.dataset.refresh);
};
// A form that was changed after its preview starts nothing: the server refuses it, and here its
// button says so at once.
const fresh = () => {
  const start = document.querySelector("button[data-previewed]");
  if (!start) return;
  const changed = [...start.form.elements].some((e) =>
    e.tagName === "SELECT" ? e.selectedIndex !== Math.max(0, [...e.options].findIndex((o) => o.defaultSelected))
    : e.type === "checkbox" ? e.checked !== e.defaultChecked
    : e.tagName === "INPUT" && e.value !== e.defaultValue);
  start.disabled = changed || start.hasAttribute("aria-describedby");
  document.querySelector("[data-changed]").hidden = !changed;
};
// Airflow shows these pages in a frame whose sandbox allows no link to leave it. Such a link is
// pressed in Airflow's own document, which is of this host.
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[target=_top]");
  if (!link || window.parent === window || event.ctrlKey || event.metaKey) return;
  try {
    const way = window.parent.document.createElement("a");
    way.href = link.href;
    event.preventDefault();
    way.click();
  } catch {
    // Another host's frame: the browser decides.
  }
});
document.addEventListener("input", fresh);
window.addEventListener("pageshow", fresh);
here();
setTimeout(follow, 3000);
later();
