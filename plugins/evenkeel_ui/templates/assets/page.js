// Times in the reader's zone; a run that goes on is followed without loading the page anew.
const here = () => {
  for (const time of document.querySelectorAll("time[datetime]")) {
    const moment = new Date(time.dateTime);
    if (isNaN(moment)) continue;
    time.title = time.textContent;
    time.textContent = moment.toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
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
document.addEventListener("input", fresh);
window.addEventListener("pageshow", fresh);
here();
setTimeout(follow, 3000);
