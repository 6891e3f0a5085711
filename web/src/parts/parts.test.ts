import { describe, expect, test } from "vitest";

import type { Order, OrderEvent, Verdict } from "../api/types";
import { readDocument } from "./document";
import { hueOf, islands, isSick, orderOf } from "./islands";
import { cuts, DEVICE, layout } from "./topology";
import { billed, costTerms, placedAt, sortVerdicts, steps } from "./plan";

const at = (seconds: number): string => new Date(Date.UTC(2026, 0, 1) + seconds * 1000).toISOString();
const event = (seq: number, seconds: number, phase: string | null): OrderEvent => ({ seq, at: at(seconds), kind: "x", phase });
const order = (change: Partial<Order>): Order => ({ id: "a", name: "a", state: "inProgress", created: at(0), ...change });

describe("phases", () => {
  const events = [event(1, 0, null), event(2, 1, "reserving"), event(3, 3, "holding"), event(4, 4, "holding"), event(5, 8, "routing")];

  test("are done, now or ahead, each with its time", () => {
    const found = steps(order({ phase: "routing" }), events, Date.parse(at(20)));
    expect(found.slice(0, 4).map((step) => [step.phase, step.state, step.took_ms])).toEqual([
      ["reserving", "done", 2000],
      ["holding", "done", 5000],
      ["routing", "now", 12_000],
      ["staging", "ahead", null],
    ]);
  });

  test("begin anew when an order is placed again", () => {
    const again = [...events, event(6, 30, "reserving")];
    const found = steps(order({ phase: "reserving" }), again, Date.parse(at(31)));
    expect(found[0]).toMatchObject({ state: "now", took_ms: 1000 });
    expect(found[1]).toMatchObject({ state: "ahead", took_ms: null });
  });

  test("show where a failed order broke, and what it never reached", () => {
    const found = steps(order({ state: "failed", phase: null }), events, 0);
    expect(found[2]?.state).toBe("broken");
    expect(found[3]?.state).toBe("skipped");
  });
});

test("verdicts come chosen first, then by price, then the refused", () => {
  const verdicts: Verdict[] = [
    { site: "d", verdict: "refused" },
    { site: "c", verdict: "dearer", delta_micros: 9 },
    { site: "b", verdict: "dearer", delta_micros: 2 },
    { site: "a", verdict: "chosen" },
  ];
  expect(sortVerdicts(verdicts).map((verdict) => verdict.site)).toEqual(["a", "b", "c", "d"]);
});

test("cost terms leave out what is nothing; the bill leaves out what only steers", () => {
  const cost = { total_micros: 111, compute_micros: 0, path_micros: 1, transfer_micros: 10, time_micros: 100, lateness_micros: 0, currency: "CNY" };
  expect(costTerms(cost).map((one) => one.term)).toEqual(["compute", "path", "transfer", "time"]);
  expect(billed(cost)).toBe(11);
});

test("what of a plan runs at a site", () => {
  const plan = { components: [{ name: "web", assignments: [{ site: "x", replicas: 2 }, { site: "y", replicas: 1 }] }, { name: "db", assignments: [{ site: "x", replicas: 1 }] }] };
  expect(placedAt(plan, "x")).toBe("web × 2, db × 1");
  expect(placedAt(plan, "z")).toBe("");
});

test("devices are drawn by NVLink island, loose ones last", () => {
  const device = (index: number, island: number | null) => ({ index, model: "A100", memory_bytes: 1, island });
  const found = islands([device(3, 1), device(0, 0), device(4, null), device(1, 0), device(2, 1)]);
  expect(found.map((island) => [island.index, island.devices.map((one) => one.index)])).toEqual([
    [0, [0, 1]],
    [1, [2, 3]],
    [null, [4]],
  ]);
});

test("devices stand below their switch and NUMA node, islands under them without lying over each other", () => {
  const device = (index: number, numa: number | null, pcie: number | null, island: number | null) => ({ index, model: "A100", memory_bytes: 1, numa, pcie, island });
  const plan = layout([device(0, 1, 2, 0), device(1, 0, 0, 0), device(2, 0, 1, 1), device(3, 0, 0, 1), device(4, null, null, null)]);
  expect(plan.seats.map((seat) => seat.device.index)).toEqual([1, 3, 2, 0, 4]);
  expect(plan.seats.every((seat, at) => at === 0 || seat.x >= (plan.seats[at - 1]?.x ?? 0) + DEVICE.width)).toBe(true);
  expect(plan.numas.map((numa) => [numa.number, numa.stubs.length])).toEqual([[0, 3], [1, 1]]);
  expect(plan.switches.map((found) => [found.number, found.stubs.length])).toEqual([[0, 2], [1, 1], [2, 1]]);
  const [first, second] = plan.bars;
  expect(plan.bars.map((bar) => bar.stubs.length)).toEqual([2, 2]);
  expect(first && second && (first.y !== second.y || first.to < second.from)).toBe(true);
  expect(plan.bars.every((bar) => bar.y < plan.height && bar.to <= plan.width)).toBe(true);
  expect(layout([]).seats).toEqual([]);
});

test("slices take their memory's part of a device, and what is not cut is left", () => {
  const slice = (number: number, memory_bytes: number) => ({ number, profile: "x", memory_bytes });
  const parts = cuts({ index: 0, model: "x", memory_bytes: 80, slices: [slice(0, 40), slice(1, 20)] });
  expect(parts.map((part) => [part.slice?.number ?? null, part.width / DEVICE.width])).toEqual([[0, 0.5], [1, 0.25], [null, 0.25]]);
  // a driver that rounds up does not draw beyond the device
  const full = cuts({ index: 0, model: "x", memory_bytes: 79, slices: [slice(0, 40), slice(1, 40)] });
  expect(full.reduce((sum, part) => sum + part.width, 0)).toBeCloseTo(DEVICE.width);
});

test("only devices of one's own orders lead to an order", () => {
  const device = { index: 0, model: "x", memory_bytes: 1 };
  expect(orderOf({ ...device, order: "0197a2c4-5d10-7c3e-9a41-6f2b8d0e1a01" })).toBe("0197a2c4-5d10-7c3e-9a41-6f2b8d0e1a01");
  expect([orderOf({ ...device, order: "held" }), orderOf({ ...device, order: "quote 0197a2c4-5d10-7c3e-9a41-6f2b8d0e1a01" }), orderOf(device)]).toEqual([null, null, null]);
});

test("an order keeps its colour; health is trusted unless it says otherwise", () => {
  expect(hueOf("0197a2c4")).toBe(hueOf("0197a2c4"));
  expect(isSick({ index: 0, model: "x", memory_bytes: 1, health: "OK" })).toBe(false);
  expect(isSick({ index: 0, model: "x", memory_bytes: 1, health: "lost" })).toBe(true);
});

describe("order documents", () => {
  const text = "name: a\ncomponents:\n  - name: t\n    need: {cpu: 4}\n  - name: u\n    need:\n      memory: 1GiB\n";

  test("give the line of a pointer, or of the nearest part of it that is there", () => {
    const { lineOf, value, faults } = readDocument(text);
    expect(faults).toEqual([]);
    expect(value).toMatchObject({ name: "a", components: [{ need: { cpu: 4 } }, { need: { memory: "1GiB" } }] });
    expect(lineOf("/components/1/need/memory")).toBe(7);
    expect(lineOf("/components/0/need/cpu")).toBe(4);
    expect(lineOf("#/components/1/work")).toBe(5);
    expect(lineOf("/terms/budget")).toBeNull();
    expect(lineOf("")).toBeNull();
  });

  test("keep times and dates as they are written", () => {
    expect(readDocument('terms: {deadline: 2026-12-01T08:00:00Z, window: {from: "22:00", to: "06:00"}}').value).toEqual({
      terms: { deadline: "2026-12-01T08:00:00Z", window: { from: "22:00", to: "06:00" } },
    });
  });

  test.each([
    ["work: {hours: 1e309}", "/work/hours"],
    ["work: {hours: .nan}", "/work/hours"],
    ["a/b: 12345678901234567890", "/a~1b"],
  ])("do not send %s, which JSON would change", (document, pointer) => {
    expect(readDocument(document).faults).toEqual([{ pointer, line: 1, kind: "number" }]);
  });

  test("say the line of a fault in the YAML", () => {
    const [fault] = readDocument("name: a\nname: b\n").faults;
    expect(fault).toMatchObject({ kind: "yaml", line: 2 });
  });

  test("must be a mapping, and there", () => {
    expect(readDocument("- a\n").faults[0]?.kind).toBe("notobject");
    expect(readDocument("  \n").faults[0]?.kind).toBe("empty");
    expect(readDocument('{"name": "a"}').value).toEqual({ name: "a" });
  });
});
