for (const time of document.querySelectorAll("time[datetime]")) {
  const moment = new Date(time.dateTime);
  if (isNaN(moment)) continue;
  time.title = time.textContent;
  time.textContent = moment.toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
}
