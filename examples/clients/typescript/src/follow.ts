import type { Client } from "openapi-fetch";
import type { components, paths } from "./schema.js";

type Action = components["schemas"]["Action"];

/**
 * Reads actions as Server-Sent Events. Its cursor is the id of the last event that had one; actions
 * behind it may come again after a reconnect, so their ids are kept as well.
 */
export class Follower {
  private readonly acted = new Set<string>();

  constructor(
    private readonly client: Client<paths>,
    private readonly key: string,
    private cursor: string,
  ) {}

  /** The ids of the next actions; then it hangs up. */
  async until(count: number): Promise<string[]> {
    const line = new AbortController();
    const { data, error } = await this.client.GET("/actions", {
      params: {
        query: { agent: "Drone", key: this.key },
        header: { "Last-Event-ID": this.cursor },
      },
      headers: { Accept: "text/event-stream" },
      parseAs: "stream",
      signal: line.signal,
    });
    if (!data) throw new Error(error?.detail ?? "a stream without a body");
    const found: string[] = [];
    try {
      for await (const event of eventsOf(data)) {
        if (event.id !== undefined) this.cursor = event.id;
        if (event.event === "problem") throw new Error(`the stream ended: ${event.data}`);
        if (event.event !== "action") continue;
        const action = JSON.parse(event.data ?? "") as Action;
        if (this.acted.has(action.id)) continue;
        this.acted.add(action.id);
        if (found.push(action.id) === count) return found;
      }
    } finally {
      line.abort();
    }
    throw new Error(`the stream ended after ${found.length} of ${count} actions`);
  }
}

type SentEvent = { event?: string; data?: string; id?: string };

async function* eventsOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<SentEvent> {
  let text = "";
  const decoder = new TextDecoder();
  for await (const part of stream) {
    text += decoder.decode(part, { stream: true });
    const whole = text.split("\n\n");
    text = whole.pop() ?? "";
    for (const each of whole) yield eventOf(each);
  }
}

function eventOf(text: string): SentEvent {
  const fields = text.split("\n").map((line) => {
    const colon = line.indexOf(":");
    return [line.slice(0, colon), line.slice(colon + 1).trimStart()];
  });
  return Object.fromEntries(fields) as SentEvent;
}
