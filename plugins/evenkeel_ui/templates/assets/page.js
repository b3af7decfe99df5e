// A run that goes on is followed without loading the page again. Times are those of times.js.
// How long ago, in the words of the server; the page is open for longer than these stay true.
const UNITS = [["d", 86400], ["h", 3600], ["min", 60]];
const ago = () => {
  for (const time of document.querySelectorAll("time[data-ago]")) {
    const seconds = (Date.now() - new Date(time.dateTime)) / 1000;
    const [unit, size] = UNITS.find(([, size]) => seconds >= size) ?? [];
    const text = unit ? `${Math.round(seconds / size).toLocaleString("en")}\u00a0${unit} ago` : "just now";
    if (time.textContent !== text) time.textContent = text;
  }
};
// A page that can no longer refresh itself says so, and since when. PATIENCE: milliseconds that the
// server may be away before that. LONGEST: milliseconds after which an answer no longer comes.
const PATIENCE = 15000, LONGEST = 45000;
let fresh_at = Date.now();
const stale = (why, said = "") => {
  const notice = document.querySelector("#not-refreshed");
  const old = why === "login" || (why && Date.now() - fresh_at > PATIENCE);
  if (!why) fresh_at = Date.now();
  for (const each of notice.querySelectorAll("[data-why]")) each.hidden = each.dataset.why !== why;
  const since = new Date(fresh_at).toLocaleTimeString([], {
    hour: "2-digit", minute: "2-digit", timeZone: zone(), timeZoneName: "short",
  });
  const place = notice.querySelector("[data-since]");
  if (place.textContent !== since) place.textContent = since;
  const told = notice.querySelector("[data-said]");
  if (told.textContent !== said) told.textContent = said;
  notice.hidden = !old;
};
// The page as the server has it now; null, where it gives none: then the notice says why.
const fetched = async () => {
  try {
    const answer = await fetch(location.href, { signal: AbortSignal.timeout(LONGEST) });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (answer.ok) {
      // A form that stays on the page for a night is sent with the newest token.
      const token = page.querySelector("[name=csrf]")?.value;
      for (const field of token ? document.querySelectorAll("[name=csrf]") : []) field.value = token;
      return page;
    }
    // An error that one of our pages tells, and not a server between that finds none.
    const said = ["header h1", "p.lead"].map((part) => page.querySelector(`main ${part}`)?.textContent);
    const ours = said.every(Boolean);
    stale(answer.status === 401 ? "login" : ours ? "error" : "server", ours ? said.join(": ") : "");
  } catch {
    stale("server");
  }
  return null;
};
// How far the run is, and what stopping it leaves. As long as that stays, nothing of the page is
// touched: neither the focus, nor what is open, nor a button that somebody is about to press.
const progress = (page) =>
  ["h1", "[aria-label=Progress]", "[data-left]"].map((part) => page.querySelector(part)?.outerHTML).join("");
let last = progress(document);
const follow = async () => {
  if (!document.querySelector("[data-follow]")) return;
  const page = await fetched();
  if (page) {
    stale(null);
    if (progress(page) !== last) {
      const main = page.querySelector("main");
      document.querySelector("main").replaceWith(main);
      document.title = page.title;
      last = progress(document);
      here();
    }
  }
  setTimeout(follow, 3000);
};
// A part without what differs each time: tokens of forms, how long ago, and what a reader has opened.
const comparable = (part) => {
  const copy = part.cloneNode(true);
  for (const token of copy.querySelectorAll("[name=csrf]")) token.removeAttribute("value");
  for (const details of copy.querySelectorAll("details")) details.removeAttribute("open");
  for (const time of copy.querySelectorAll("time")) {
    time.textContent = "";
    time.removeAttribute("title");
  }
  return copy.outerHTML;
};
// The overview and tables' pages refresh themselves, but for a part in which somebody fills in a
// form. A part that says the same as before stays, so that nothing is read out again.
let timer = null;
const refresh = async () => {
  clearTimeout(timer);
  const page = document.hidden ? null : await fetched();
  if (page) {
    const others = [...page.querySelectorAll("[data-refresh]")];
    let busy = false;
    [...document.querySelectorAll("[data-refresh]")].forEach((part, i) => {
      const at = document.activeElement;
      if (!others[i] || comparable(others[i]) === comparable(part)) return;
      if (part.contains(at) && at.matches("input, select, textarea, button")) {
        busy = true;
        return;
      }
      const place = part.contains(at) ? ["aria-label", "href"].find((name) => at.hasAttribute(name)) : null;
      const where = place && `[${place}="${CSS.escape(at.getAttribute(place))}"]`;
      for (const details of part.querySelectorAll("details[id]")) {
        const same = others[i].querySelector(`#${details.id}`);
        if (same) same.open = details.open;
      }
      part.replaceWith(others[i]);
      if (where) others[i].querySelector(where)?.focus({ preventScroll: true });
    });
    stale(busy ? "busy" : null);
    here();
    ago();
  }
  later();
};
const later = () => {
  const part = document.querySelector("[data-refresh]");
  if (part) timer = setTimeout(refresh, 1000 * part.dataset.refresh);
};
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && document.querySelector("[data-refresh]")) refresh();
});
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
// A second press of a button that starts something starts nothing. The form is sent first: it would
// leave out a disabled button. A page that is come back to has its buttons again.
document.addEventListener("submit", ({ submitter }) => {
  const form = submitter?.form;
  if ((submitter?.getAttribute("formmethod") ?? form?.getAttribute("method")) !== "post") return;
  setTimeout(() => {
    for (const button of form.elements) {
      if (button.type !== "submit" || button.disabled) continue;
      button.disabled = true;
      button.dataset.pressed = "";
    }
  });
});
const pressable = () => {
  for (const button of document.querySelectorAll("[data-pressed]")) button.disabled = false;
};
document.addEventListener("input", fresh);
window.addEventListener("pageshow", () => (pressable(), fresh()));
setTimeout(follow, 3000);
setInterval(ago, 10000);
later();
