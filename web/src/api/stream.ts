// Server-sent events over fetch, because EventSource cannot send the Authorization header. Reconnects with
// growing pauses and says where it stopped (Last-Event-ID), so that nothing in between is missed.
import { createParser, type EventSourceMessage } from "eventsource-parser";

export type StreamStatus = "connecting" | "live" | "waiting" | "refused";

export interface StreamOptions {
  url: string;
  headers: () => Record<string, string>;
  onEvent: (event: EventSourceMessage) => void;
  onStatus: (status: StreamStatus) => void;
  fetch?: typeof globalThis.fetch;
  /** Resolves after `ms`, or at once when the signal aborts. */
  pause?: (ms: number, signal: AbortSignal) => Promise<void>;
  /** In [0, 1); spreads the reconnections of many consoles. */
  random?: () => number;
}

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 15_000;
/** Servers send at least a comment every 15 s; three of them missing means that the line is dead. */
const SILENCE_MS = 45_000;

export function pauseFor(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms);
    function done(): void {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    }
    signal.addEventListener("abort", done);
  });
}

/** Starts the stream; the function returned ends it. */
export function openStream(options: StreamOptions): () => void {
  const ending = new AbortController();
  void follow(options, ending.signal);
  return () => ending.abort();
}

async function follow(options: StreamOptions, signal: AbortSignal): Promise<void> {
  const pause = options.pause ?? pauseFor;
  const random = options.random ?? Math.random;
  let lastId: string | undefined;
  let base = FIRST_PAUSE_MS;
  let failures = 0;

  const parser = createParser({
    onEvent: (event) => {
      if (event.id !== undefined) lastId = event.id;
      failures = 0;
      options.onEvent(event);
    },
    onRetry: (ms) => (base = Math.max(ms, 100)),
  });

  while (!signal.aborted) {
    options.onStatus("connecting");
    const end = await connect(options, parser, lastId, signal);
    parser.reset();
    if (end === "ended by us") return;
    if (end === "refused") {
      options.onStatus("refused");
      return;
    }
    options.onStatus("waiting");
    const longest = Math.min(base * 2 ** failures, LONGEST_PAUSE_MS);
    failures = Math.min(failures + 1, 16);
    await pause(longest * (0.5 + random() / 2), signal);
  }
}

type Parser = ReturnType<typeof createParser>;

async function connect(options: StreamOptions, parser: Parser, lastId: string | undefined, signal: AbortSignal): Promise<"ended" | "ended by us" | "refused"> {
  const line = new AbortController();
  const drop = (): void => line.abort();
  signal.addEventListener("abort", drop);
  let silence = setTimeout(drop, SILENCE_MS);
  try {
    const response = await (options.fetch ?? fetch)(options.url, {
      headers: { Accept: "text/event-stream", ...options.headers(), ...(lastId === undefined ? {} : { "Last-Event-ID": lastId }) },
      cache: "no-store",
      signal: line.signal,
    });
    if (response.status === 401 || response.status === 403) return "refused";
    if (!response.ok || !response.body) return "ended";
    options.onStatus("live");
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return "ended";
      clearTimeout(silence);
      silence = setTimeout(drop, SILENCE_MS);
      parser.feed(decoder.decode(value, { stream: true }));
    }
  } catch {
    return signal.aborted ? "ended by us" : "ended";
  } finally {
    clearTimeout(silence);
    signal.removeEventListener("abort", drop);
    line.abort();
  }
}
