// Times in the zone that was chosen in Airflow, which is named; documents that a run wrote have this, too.
const zone = () => {
  try {
    const chosen = (localStorage.getItem("timezone") ?? "").replaceAll('"', "") || undefined;
    new Date().toLocaleString([], { timeZone: chosen });
    return chosen;
  } catch {
    // None was chosen, or no such zone: the reader's own.
    return undefined;
  }
};
// A time keeps what the server said of it, in UTC, as its title. One that says how long ago has the
// moment itself there.
const here = () => {
  for (const time of document.querySelectorAll("time[datetime]")) {
    const moment = new Date(time.dateTime), ago = "ago" in time.dataset;
    if (isNaN(moment) || (time.title && !ago)) continue;
    const text = moment.toLocaleString([], {
      year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit",
      timeZone: zone(), timeZoneName: "short",
    });
    if (!ago) [time.title, time.textContent] = [time.textContent, text];
    else if (time.title !== text) time.title = text;
  }
};
here();
