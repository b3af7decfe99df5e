// Airflow's own switch decides between light and dark; without one, the system does. In a frame it is
// a class of Airflow's page, which is of this host; else what Airflow has kept in this browser. There the
// colours and the font are Airflow's, too, also where an administrator has chosen others.
const NATIVE = {
  "--font": "fonts-body", "--paper": "colors-bg", "--panel": "colors-bg-subtle", "--ink": "colors-fg",
  "--muted": "colors-fg-muted", "--rule": "colors-border", "--accent": "colors-brand-fg",
};
const theme = () => {
  const own = document.documentElement;
  let chosen = null;
  try {
    const outside = window.parent === window ? null : window.parent.document.documentElement;
    chosen = ["dark", "light"].find((name) => outside?.classList.contains(name)) ?? localStorage.getItem("theme");
    const theirs = outside && window.parent.getComputedStyle(outside);
    for (const [ours, name] of Object.entries(theirs ? NATIVE : {})) {
      own.style.setProperty(ours, theirs.getPropertyValue(`--chakra-${name}`).trim());
    }
  } catch {
    // Another host's frame, or a browser that keeps nothing: the system decides.
  }
  if (["dark", "light"].includes(chosen)) own.dataset.theme = chosen;
  else delete own.dataset.theme;
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
