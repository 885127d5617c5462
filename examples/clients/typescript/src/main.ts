// A drone's ground station in TypeScript: sends numbered events, repeats them, reads a state and
// follows the actions of one drone, hanging up once in between. It prints what it saw as JSON.
//
//   node build/main.js http://127.0.0.1:8080 d-1
//
// src/schema.d.ts is generated from the gateway's OpenAPI document.

import createClient from "openapi-fetch";
import { Follower } from "./follow.js";
import type { components, paths } from "./schema.js";

type DroneEvent = components["schemas"]["Event"];

const ATTEMPTS_MAX = 20;
const CLIMBING = 5;

const [address, key] = process.argv.slice(2);
if (address === undefined || key === undefined) {
  throw new Error("give the gateway's address and a drone: http://127.0.0.1:8080 d-1");
}
const client = createClient<paths>({ baseUrl: address });

/** Ten positions on the way up, and an empty battery. From 100 m on each makes an action. */
function flight(key: string): DroneEvent[] {
  const numbered = (seq: number) => ({ agent: "Drone", key, source: `ts-${key}`, seq }) as const;
  const events: DroneEvent[] = [];
  for (let n = 1; n <= 10; n++) {
    const data = { lat: 52.1, lon: 4.3, alt: 90 + 5 * n };
    events.push({ ...numbered(n), type: "Position", data });
  }
  events.push({ ...numbered(11), type: "Battery", data: { percent: 9 } });
  return events;
}

/**
 * Returns when the events are durable. What was refused for now, or got no answer, is sent again
 * under the same numbers: the gateway takes each of them once.
 */
async function send(...events: DroneEvent[]) {
  for (let attempt = 1; ; attempt++) {
    let told: string;
    let seconds = 1;
    try {
      const { data, error, response } = await client.POST("/events", { body: events });
      if (data !== undefined) return data;
      told = error.detail;
      if (![429, 503, 504].includes(response.status)) throw new Refused(told);
      seconds = Number(response.headers.get("retry-after") ?? 1);
    } catch (error) {
      if (error instanceof Refused) throw error;
      told = String(error); // no answer: it may be stored, or not
    }
    if (attempt === ATTEMPTS_MAX) throw new Error(told);
    await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
  }
}

class Refused extends Error {}

const start = await client.GET("/actions", { params: { query: { after: "now" } } });
if (start.error !== undefined) throw new Error(start.error.detail);
if (typeof start.data !== "object") throw new Error("a page of actions is JSON"); // or a stream: text
const feed = new Follower(client, key, start.data.cursor);
const events = flight(key);

for (const event of events.slice(0, CLIMBING)) await send(event); // one by one, as a device would
const before = await feed.until(3); // then it hangs up
await send(...events.slice(CLIMBING)); // many in one request
const { receipt, repeats } = await send(...events); // all again: the numbers are known

const found = await client.GET("/agents/{agent}/{key}", {
  params: { path: { agent: "Drone", key }, query: { after: receipt } },
});
if (found.data === undefined) throw new Error(found.error.detail);
const { alt, battery, mode } = found.data.state;
const after = await feed.until(6); // goes on where it was

console.log(JSON.stringify({ sent: events.length, repeats, alt, battery, mode, before, after }));
