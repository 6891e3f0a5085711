import { describe, expect, test } from "vitest";

import { parseLogs } from "./logs";
import { mergeBy, mergeOrder, type OrderPages, stamp } from "./merge";
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

describe("logs", () => {
  test("come as a list", () => {
    expect(parseLogs('{"items":[{"line":"a","stream":"stderr"},"b"],"next":null}')).toEqual([{ line: "a", stream: "stderr" }, { line: "b" }]);
  });

  test("or as plain text, even such that looks like JSON at its start", () => {
    expect(parseLogs("[epoch 1] loss 2\n[epoch 2] loss 1\n")).toEqual([{ line: "[epoch 1] loss 2" }, { line: "[epoch 2] loss 1" }]);
    expect(parseLogs("")).toEqual([]);
  });
});
