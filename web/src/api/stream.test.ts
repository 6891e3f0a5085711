import { expect, test, vi } from "vitest";

import { openStream, type StreamStatus } from "./stream";

interface Call {
  url: string;
  headers: Headers;
  send: (text: string) => void;
  end: () => void;
  break: () => void;
}

/** A server that the test plays itself. */
function stage(statusOf: (call: number) => number = () => 200) {
  const calls: Call[] = [];
  const pauses: number[] = [];
  const statuses: StreamStatus[] = [];
  const events: { event: string | undefined; data: string }[] = [];
  const encoder = new TextEncoder();

  const fetch = (url: RequestInfo | URL, init?: RequestInit): Promise<Response> => {
    const status = statusOf(calls.length);
    let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
    const body = new ReadableStream<Uint8Array>({ start: (made) => void (controller = made) });
    init?.signal?.addEventListener("abort", () => {
      try {
        controller?.error(new DOMException("aborted", "AbortError"));
      } catch {
        // Already ended.
      }
    });
    calls.push({
      url: url instanceof Request ? url.url : url.toString(),
      headers: new Headers(init?.headers),
      send: (text) => controller?.enqueue(encoder.encode(text)),
      end: () => controller?.close(),
      break: () => controller?.error(new TypeError("network error")),
    });
    if (status === 0) return Promise.reject(new TypeError("failed to fetch"));
    return Promise.resolve(new Response(body, { status }));
  };

  const close = openStream({
    url: "http://server/v1/events",
    headers: () => ({ Authorization: "Bearer t" }),
    onEvent: ({ event, data }) => events.push({ event, data }),
    onStatus: (status) => statuses.push(status),
    fetch,
    pause: (ms) => {
      pauses.push(ms);
      return Promise.resolve();
    },
    random: () => 1,
  });
  const call = async (index: number): Promise<Call> => {
    await vi.waitFor(() => expect(calls.length).toBeGreaterThan(index));
    return calls[index] as Call;
  };
  return { calls, pauses, statuses, events, close, call };
}

test("sends the credential and reads events cut anywhere", async () => {
  const { call, events, close, statuses } = stage();
  const first = await call(0);
  expect(first.headers.get("Authorization")).toBe("Bearer t");
  expect(first.headers.has("Last-Event-ID")).toBe(false);
  const text = 'id: 7\nevent: order\ndata: {"name":"订单"}\n\n: still here\n\n';
  for (const character of text) first.send(character);
  await vi.waitFor(() => expect(events).toEqual([{ event: "order", data: '{"name":"订单"}' }]));
  expect(statuses).toEqual(["connecting", "live"]);
  close();
});

test("comes back after a broken line and says where it stopped", async () => {
  const { call, events, close, statuses } = stage();
  const first = await call(0);
  first.send("id: 41\nevent: site\ndata: 1\n\n");
  await vi.waitFor(() => expect(events).toHaveLength(1));
  first.send("id: 42\nevent: site\ndata: half an ev");
  first.break();
  const second = await call(1);
  expect(second.headers.get("Last-Event-ID")).toBe("41");
  second.send("id: 42\nevent: site\ndata: 2\n\n");
  await vi.waitFor(() => expect(events.map((event) => event.data)).toEqual(["1", "2"]));
  expect(statuses).toEqual(["connecting", "live", "waiting", "connecting", "live"]);
  close();
});

test("comes back when the server ends the stream", async () => {
  const { call, close } = stage();
  (await call(0)).end();
  expect((await call(1)).url).toBe("http://server/v1/events");
  close();
});

test("waits longer after each failure, up to a bound, and from the start again after an event", async () => {
  const { call, events, pauses, close } = stage((index) => (index < 8 ? 0 : 200));
  const ninth = await call(8);
  expect(pauses.slice(0, 8)).toEqual([500, 1000, 2000, 4000, 8000, 15_000, 15_000, 15_000]);
  ninth.send("id: 1\ndata: x\n\n");
  await vi.waitFor(() => expect(events).toHaveLength(1));
  ninth.end();
  await call(9);
  expect(pauses[8]).toBe(500);
  close();
});

test("takes the pause that the server asks for", async () => {
  const { call, pauses, close } = stage();
  const first = await call(0);
  first.send("retry: 2500\n\nid: 1\ndata: x\n\n");
  await vi.waitFor(() => expect(first.headers.get("Accept")).toBe("text/event-stream"));
  first.end();
  await call(1);
  expect(pauses).toEqual([2500]);
  close();
});

test("does not ask again with a refused token", async () => {
  const { calls, statuses } = stage(() => 401);
  await vi.waitFor(() => expect(statuses.at(-1)).toBe("refused"));
  expect(calls).toHaveLength(1);
});

test("asks no more once closed", async () => {
  const { call, calls, close, statuses } = stage();
  await call(0);
  await vi.waitFor(() => expect(statuses.at(-1)).toBe("live"));
  close();
  await Promise.resolve();
  expect(calls).toHaveLength(1);
  expect(statuses.at(-1)).toBe("live");
});
