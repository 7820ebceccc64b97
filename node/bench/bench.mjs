// The package against better-sqlite3, everything durable, on this machine: each measurement in a process of
// its own, the contestants in turn, medians of the rounds. Prints a table; `--record FILE` keeps everything.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const CONTESTANTS = ["groupcommit", "better-sqlite3"];
const MEASUREMENTS = [
  { what: "outstanding", label: "1,000 promises outstanding", unit: "inserts/s", atLeast: 15 },
  { what: "oneAtATime", label: "one at a time, p50", unit: "µs", atMost: 1.6 },
  { what: "reads", label: "reads of one row, `getSync`", unit: "reads/s", atLeast: 0.8 },
  { what: "asyncReads", label: "reads of one row, `await get`", unit: "reads/s" },
];

const { values: options } = parseArgs({
  options: {
    seconds: { type: "string", default: "3" },
    rounds: { type: "string", default: "5" },
    folder: { type: "string" },
    record: { type: "string" },
  },
});

const here = fileURLToPath(new URL(".", import.meta.url));
const version = (name) => JSON.parse(readFileSync(`${here}node_modules/${name}/package.json`, "utf8")).version;
const median = (numbers) => numbers.toSorted((a, b) => a - b)[numbers.length >> 1];

function measure(contestant, what) {
  const args = [`${here}contestants.mjs`, contestant, what, options.seconds, `${options.folder}/${contestant}`];
  return JSON.parse(execFileSync(process.execPath, args, { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] }));
}

const results = MEASUREMENTS.map((measurement) => {
  const runs = Object.fromEntries(CONTESTANTS.map((contestant) => [contestant, []]));
  for (let round = 0; round < Number(options.rounds); round += 1) {
    const order = round % 2 === 0 ? CONTESTANTS : CONTESTANTS.toReversed();
    for (const contestant of order) runs[contestant].push(measure(contestant, measurement.what));
  }
  const medians = CONTESTANTS.map((contestant) => median(runs[contestant]));
  const ratio = medians[0] / medians[1];
  const { atLeast = -Infinity, atMost = Infinity } = measurement;
  return { ...measurement, runs, ratio, isMet: ratio >= atLeast && ratio <= atMost };
});

const digits = (number) => number.toLocaleString("en", { maximumSignificantDigits: 3 });
for (const { label, unit, runs, ratio, atLeast, atMost, isMet } of results) {
  const [ours, theirs] = CONTESTANTS.map((contestant) => `${digits(median(runs[contestant]))} ${unit}`);
  const target = atLeast ? `at least ${atLeast}` : atMost ? `at most ${atMost}` : "no target";
  console.log(`${label}: ${ours} against ${theirs}, ${digits(ratio)} × (${target}${isMet ? "" : ": MISSED"})`);
}
if (options.record) {
  const conditions = `Node ${process.versions.node}, better-sqlite3 ${version("better-sqlite3")}, ${cpus().length} cores`;
  const comparisons = results.map(({ label, unit, runs, atLeast, atMost }) => {
    const [ours, theirs] = CONTESTANTS.map((contestant) => runs[contestant]);
    return { what: label, unit, ours, theirs, at_least: atLeast, at_most: atMost };
  });
  const record = { conditions, repetitions: Number(options.rounds), comparisons };
  writeFileSync(options.record, `${JSON.stringify(record, null, 2)}\n`);
}
