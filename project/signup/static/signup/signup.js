// Keep the list of jobs up to date without loading the page again.
"use strict";

const EVERY_MS = 500;
const list = document.getElementById("jobs");
const trouble = document.getElementById("trouble");

function show(row, job) {
  const bar = row.querySelector("progress");
  row.dataset.state = job.state;
  // Only a changed text is written: a screen reader announces each write.
  for (const [name, text] of [["words", job.words], ["attempt", `attempt ${job.attempt} of ${job.max_attempts}`]]) {
    const place = row.querySelector(`.${name}`);
    if (place.textContent !== text) place.textContent = text;
  }
  if (job.progress !== null) bar.value = job.progress;
  else if (job.state === "running") bar.removeAttribute("value");
  else bar.value = 0;
}

async function look() {
  try {
    const answer = await fetch(list.dataset.statusUrl, { cache: "no-store", signal: AbortSignal.timeout(10000) });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    const status = await answer.json();
    if (status.jobs.length !== list.children.length) return location.reload();
    status.jobs.forEach((job, index) => show(list.children[index], job));
    list.dataset.finished = status.is_finished;
    trouble.hidden = true;
  } catch (error) {
    trouble.hidden = false;
  }
  if (list.dataset.finished !== "true") setTimeout(look, EVERY_MS);
}

if (list) setTimeout(look, EVERY_MS);
