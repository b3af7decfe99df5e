// Times in the reader's zone; a run that goes on is followed without loading the page anew.
const here = () => {
  for (const time of document.querySelectorAll("time[datetime]")) {
    const moment = new Date(time.dateTime);
    if (isNaN(moment)) continue;
    time.title = time.textContent;
    time.textContent = moment.toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
  }
};
let last = "";
const follow = async () => {
  if (!document.querySelector("[data-follow]")) return;
  try {
    const answer = await fetch(location.href);
    const text = answer.ok ? await answer.text() : last;
    if (text !== last) {
      const page = new DOMParser().parseFromString(text, "text/html");
      document.querySelector("main").replaceWith(page.querySelector("main"));
      document.title = page.title;
      here();
      last = text;
    }
  } catch {
    // The server is away for a moment: asked again.
  }
  setTimeout(follow, 3000);
};
here();
setTimeout(follow, 3000);
