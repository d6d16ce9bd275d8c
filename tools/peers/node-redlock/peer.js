// node-redlock as a peer; tools/peers/README.md says how it is spoken to. Its packages are in the folder of NODE_PATH.
"use strict";

const { spawn } = require("node:child_process");
const path = require("node:path");
const readline = require("node:readline");
const Redis = require("ioredis");
const { default: Redlock } = require("redlock");

const TTL_MS = Number(process.env.PEER_TTL_MS || 30000);

const [bench, , tasks, kind, holdUs, name, file, process_] = process.argv.slice(2);
if (bench !== "contention") throw new Error("usage: see tools/peers/README.md");
const me = Number(process_);
let marked = false;
let ended = false;

/** The judge answers one question at a time, in order. */
const judge = spawn("python3", [path.join(__dirname, "judge.py"), file, process_], {
  stdio: ["pipe", "pipe", "inherit"],
});
const asked = [];
readline.createInterface({ input: judge.stdout }).on("line", (line) => asked.shift()(line));
const ask = (question) =>
  new Promise((resolve) => {
    asked.push(resolve);
    judge.stdin.write(question + "\n");
  });

const nowUs = () => Number(process.hrtime.bigint() / 1000n);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** It gives up after some tries, and only then gives back what it has at a minority of the servers. */
async function withLock(locks, visit) {
  for (;;) {
    let entered = false;
    const inside = async (signal) => {
      entered = true;
      await visit();
      if (signal?.aborted) throw signal.error;
    };
    try {
      // `using` renews.
      if (kind === "using") return await locks.using([name], TTL_MS, inside);
      const lock = await locks.acquire([name], TTL_MS);
      await inside();
      return await lock.release();
    } catch (error) {
      if (ended || entered || error.name !== "ExecutionError") throw error;
    }
  }
}

async function task(locks, tally) {
  while (!ended) {
    tally.asked = nowUs();
    await withLock(locks, () => visit(tally));
  }
}

async function visit(tally) {
  const waited = nowUs() - tally.asked;
  tally.asked = null;
  const counts = marked;
  tally.visits++;
  if (counts) tally.count++;
  const [word, before, whose] = (await ask(`enter ${tally.number}`)).split(" ");
  if (word === "overlap") {
    tally.overlaps++;
  } else if (counts && before !== "0" && (Number(before) !== me || Number(whose) !== tally.number)) {
    tally.waits.push(waited);
    tally.handoffs++;
    if (Number(before) === me) tally.local++;
  }
  await sleep(Number(holdUs) / 1000);
  if (word !== "overlap") await ask(`leave ${tally.number}`);
}

function report(tallies) {
  const sum = (of) => tallies.reduce((total, tally) => total + tally[of], 0);
  const waiting = tallies.filter((tally) => tally.asked !== null);
  return JSON.stringify({
    counts: tallies.map((tally) => tally.count),
    waits_us: tallies.flatMap((tally) => tally.waits),
    unfinished_us: waiting.map((tally) => nowUs() - tally.asked),
    handoffs: sum("handoffs"),
    local: sum("local"),
    visits: sum("visits"),
    overlaps: sum("overlaps"),
    fallen: 0,
  });
}

const fail = (error) => {
  if (ended) return;
  console.error(error);
  process.exit(1);
};

const tallies = Array.from({ length: Number(tasks) }, (_, at) => ({
  number: at + 1, asked: null, waits: [], count: 0, handoffs: 0, local: 0, visits: 0, overlaps: 0,
}));
let locks;
readline.createInterface({ input: process.stdin }).on("line", async (line) => {
  if (!locks) {
    const clients = line.trim().split(/\s+/).map((url) => new Redis(url));
    locks = new Redlock(clients);
    locks.on("error", () => {}); // It tells each refused try of one server.
    await Promise.all(clients.map((client) => client.ping()));
    console.log("ready");
  } else if (line === "begin") {
    tallies.forEach((tally) => task(locks, tally).catch(fail));
  } else if (line === "mark") {
    marked = true;
  } else if (line === "enough") {
    marked = false;
  } else if (line === "end") {
    ended = true;
    process.stdout.write(report(tallies) + "\n", () => process.exit(0));
  }
}).on("close", () => ended || process.exit(0));
