import { describe, expect, test } from "vitest";

import { addChunks, NO_LOGS } from "./logs";
import { judged, mergeBy, mergeOrder, type OrderPages, placed, stamp } from "./merge";
import type { Order } from "./types";

const order = (id: string, state: string): Order => ({ id, name: id, state, created: "2026-01-01T00:00:00Z" });
const pages = (...items: Order[]): OrderPages => ({ pages: [{ items: stamp(items, 1), next: null }], pageParams: [""] });
const ids = (data: OrderPages): string[] => data.pages.flatMap((page) => page.items.map((item) => item.id));

test("changes are laid over what is known; what they do not name stays", () => {
  const before: { id: string; a?: number; b?: number }[] = [{ id: "x", a: 1, b: 2 }, { id: "y" }];
  const merged = mergeBy(before, [{ id: "x", a: 9 }, { id: "z" }], (item) => item.id);
  expect(merged).toEqual([{ id: "x", a: 9, b: 2 }, { id: "y" }, { id: "z" }]);
});

describe("an order that changed", () => {
  const [running] = stamp([order("a", "inProgress")], 2);
  const [done] = stamp([order("a", "completed")], 2);
  const [fresh] = stamp([order("c", "acknowledged")], 2);
  if (!running || !done || !fresh) throw new Error("stamp returns as many items as it is given");

  test("is replaced in place", () => {
    const merged = mergeOrder(pages(order("b", "held"), order("a", "pending")), running, "");
    expect(ids(merged)).toEqual(["b", "a"]);
    expect(merged.pages[0]?.items[1]).toMatchObject({ state: "inProgress", received_at: 2 });
  });

  test("leaves a list whose filter it no longer fits", () => {
    expect(ids(mergeOrder(pages(order("a", "inProgress"), order("b", "inProgress")), done, "inProgress"))).toEqual(["b"]);
  });

  test("comes first where it is new and fits, and stays out where it does not", () => {
    expect(ids(mergeOrder(pages(order("a", "pending")), fresh, ""))).toEqual(["c", "a"]);
    expect(ids(mergeOrder(pages(order("a", "pending")), fresh, "pending"))).toEqual(["a"]);
  });
});

describe("output", () => {
  const chunk = (replica: number, text: string) => ({ component: "web", replica, text });

  test("cut anywhere comes together line by line, by replica", () => {
    let logs = addChunks(NO_LOGS, [chunk(0, "one\ntw"), chunk(1, "uno\n")], "12");
    expect(logs.lines.map((line) => line.text)).toEqual(["one", "tw", "uno"]);
    logs = addChunks(logs, [chunk(0, "o\nthree"), chunk(1, "dos\n")], "24");
    expect(logs.lines.map((line) => [line.source, line.text])).toEqual([
      ["web.0", "one"],
      ["web.0", "two"],
      ["web.1", "uno"],
      ["web.0", "three"],
      ["web.1", "dos"],
    ]);
    expect(logs.after).toBe("24");
  });

  test("that has not grown stays what it was", () => {
    const logs = addChunks(NO_LOGS, [chunk(0, "one\n")], "4");
    expect(addChunks(logs, [], null)).toBe(logs);
  });

  test("of a talkative order keeps its newest lines", () => {
    const logs = addChunks(NO_LOGS, [chunk(0, "x\n".repeat(6_000) + "last\n")], "1");
    expect(logs.lines).toHaveLength(5_000);
    expect(logs.lines.at(-1)?.text).toBe("last");
  });
});

test("places are read from millionths of a degree, or from decimals that may be text", () => {
  expect(placed({ lat_micro: 31_230_000, lon_micro: -121_470_000 })).toMatchObject({ place: { lat: 31.23, lon: -121.47 } });
  expect(placed({ place: { lat: "1.5", lon: 2 } })).toMatchObject({ place: { lat: 1.5, lon: 2 } });
  expect(placed({ place: null })).toEqual({ place: null });
});

test("a link that nothing measures is estimated, not stale", () => {
  const link = { id: "a", from: "x", to: "y", configured_latency_us: 1, capacity_kbps: 1, stale: true };
  expect(judged({ ...link, estimated: true }).stale).toBe(false);
  expect(judged({ ...link, estimated: false }).stale).toBe(true);
});
