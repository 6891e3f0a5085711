import { describe, expect, test } from "vitest";

import { fittedProjection, greatCircle, lanes, midOf, offsetLine, type Point, viewed, WHOLE, zoomAbout } from "./geometry";
import { bottomTicks, meridian, parallel, spacing } from "./graticule";
import { overlaps, placeLabels, textWidth } from "./labels";
import { target } from "./roving";
import { classOf, isSlow } from "./scales";

const SIZE = { width: 1200, height: 800 };
const SHANGHAI = { lat: 31.23, lon: 121.47 };
const FRANKFURT = { lat: 50.11, lon: 8.68 };
const LONDON = { lat: 51.51, lon: -0.13 };
const OREGON = { lat: 45.6, lon: -121.2 };
const NEW_YORK = { lat: 40.7, lon: -74 };
const ALL = [SHANGHAI, FRANKFURT, LONDON, OREGON];

const at = (projection: ReturnType<typeof fittedProjection>, place: { lat: number; lon: number }): Point =>
  projection([place.lon, place.lat]) ?? [NaN, NaN];

describe("projection", () => {
  test("fits all places inside the frame", () => {
    const projection = fittedProjection(ALL, SIZE, 56);
    for (const place of ALL) {
      const [x, y] = at(projection, place);
      expect(x).toBeGreaterThanOrEqual(56);
      expect(x).toBeLessThanOrEqual(SIZE.width - 55);
      expect(y).toBeGreaterThanOrEqual(55);
      expect(y).toBeLessThanOrEqual(SIZE.height - 55);
    }
  });

  test("is centred on the Pacific: Europe lies left of Asia, America right of it", () => {
    const projection = fittedProjection(ALL, SIZE, 56);
    const [london, shanghai, oregon] = [at(projection, LONDON)[0], at(projection, SHANGHAI)[0], at(projection, OREGON)[0]];
    expect(london).toBeLessThan(shanghai);
    expect(shanghai).toBeLessThan(oregon);
  });

  test("shows the surroundings of a single place", () => {
    const projection = fittedProjection([SHANGHAI], SIZE, 56);
    const degree = Math.abs(at(projection, { lat: 31.23, lon: 122.47 })[0] - at(projection, SHANGHAI)[0]);
    expect(degree).toBeLessThan(SIZE.width / 10);
  });

  test("zooming keeps the point under the pointer where it is", () => {
    const base = fittedProjection(ALL, SIZE, 56);
    const pointer: Point = at(base, SHANGHAI);
    const zoomed = viewed(base, zoomAbout(WHOLE, 3, pointer));
    const after = at(zoomed, SHANGHAI);
    expect(after[0]).toBeCloseTo(pointer[0], 4);
    expect(after[1]).toBeCloseTo(pointer[1], 4);
    expect(zoomAbout(WHOLE, 1e9, [0, 0]).k).toBeLessThanOrEqual(24);
  });
});

describe("great circles", () => {
  const projection = fittedProjection(ALL, SIZE, 56);

  test("cross the Pacific in one piece and bow to the north", () => {
    const lines = greatCircle(projection, SHANGHAI, OREGON);
    expect(lines).toHaveLength(1);
    const highest = Math.min(...(lines[0] ?? []).map(([, y]) => y));
    expect(highest).toBeLessThan(Math.min(at(projection, SHANGHAI)[1], at(projection, OREGON)[1]));
  });

  test("leave one edge and come back at the other in two pieces over the Atlantic", () => {
    const lines = greatCircle(projection, LONDON, NEW_YORK);
    expect(lines).toHaveLength(2);
    const [out, back] = lines as [Point[], Point[]];
    expect(out[0]?.[0]).toBeCloseTo(at(projection, LONDON)[0], 3);
    expect(back.at(-1)?.[0]).toBeCloseTo(at(projection, NEW_YORK)[0], 3);
  });

  test("of the two directions lie on opposite sides, each to the right of its own", () => {
    const there: Point[] = [[0, 0], [50, 0], [100, 0]];
    const back = [...there].reverse();
    expect(offsetLine(there, 4)[1]?.[1]).toBeCloseTo(4);
    expect(offsetLine(back, 4)[1]?.[1]).toBeCloseTo(-4);
    expect(offsetLine(there, 4)[0]).toEqual([0, 0]);
  });

  test("of parallel links take lanes of their own", () => {
    const lane = lanes([
      { id: "b", from: "x", to: "y" },
      { id: "a", from: "x", to: "y" },
      { id: "a~", from: "y", to: "x" },
    ]);
    expect(lane.get("a")).toBe(0.5);
    expect(lane.get("b")).toBe(1.5);
    expect(lane.get("a~")).toBe(0.5);
  });

  test("have their arrow half way, pointing along", () => {
    expect(midOf([[0, 0], [10, 0], [20, 0], [30, 0]])).toEqual({ at: [15, 0], angle: 0 });
  });
});

describe("labels", () => {
  const frame = { x0: 0, y0: 0, x1: 1200, y1: 800 };
  const label = (id: string, point: Point, rank = 0) => ({ id, text: id, at: point, radius: 7, rank, fontSize: 12 });
  const boxOf = (one: ReturnType<typeof placeLabels>[number]) => {
    const width = textWidth(one.text, one.fontSize);
    const x0 = one.anchor === "start" ? one.x : one.anchor === "end" ? one.x - width : one.x - width / 2;
    return { x0, x1: x0 + width, y0: one.y - one.fontSize * 0.8, y1: one.y + one.fontSize * 0.2 };
  };

  test("of neighbours do not overlap, and all are shown where there is room", () => {
    const crowd = Array.from({ length: 12 }, (_, index) => label(`site-number-${index}`, [400 + (index % 4) * 24, 300 + Math.floor(index / 4) * 22]));
    const placed = placeLabels(crowd, [], frame);
    expect(placed.length).toBeGreaterThanOrEqual(8);
    placed.forEach((one, index) => {
      for (const other of placed.slice(index + 1)) expect(overlaps(boxOf(one), boxOf(other))).toBe(false);
    });
  });

  test("stand nearer to their own mark than to a neighbour's", () => {
    const [london, frankfurt] = [label("london-edge", [400, 300]), label("frankfurt-1", [430, 308])];
    const placed = placeLabels([london, frankfurt], [], frame);
    for (const [own, other] of [[london, frankfurt], [frankfurt, london]] as const) {
      const box = boxOf(placed.find((one) => one.id === own.id) as (typeof placed)[number]);
      const away = ([x, y]: Point): number => Math.hypot(Math.max(box.x0 - x, 0, x - box.x1), Math.max(box.y0 - y, 0, y - box.y1));
      expect(away(own.at)).toBeLessThan(away(other.at));
    }
  });

  test("stay inside the frame, and the important one wins where only one fits", () => {
    const narrow = { x0: 0, y0: 0, x1: 130, y1: 22 };
    const placed = placeLabels([label("minor", [20, 11], 5), label("major", [22, 11], 0)], [], narrow);
    expect(placed.map((one) => one.id)).toEqual(["major"]);
  });

  test("count CJK characters as wide", () => {
    expect(textWidth("上海", 12)).toBe(24);
  });
});

describe("frame", () => {
  test("writes degrees as charts do", () => {
    expect([meridian(120), meridian(190), meridian(0), meridian(-180)]).toEqual(["120°E", "170°W", "0°", "180°"]);
    expect([parallel(30), parallel(-30), parallel(0)]).toEqual(["30°N", "30°S", "0°"]);
  });

  test("has its ticks inside, in order and apart", () => {
    const projection = fittedProjection(ALL, SIZE, 56);
    const ticks = bottomTicks(projection, SIZE, spacing(projection));
    expect(ticks.length).toBeGreaterThan(3);
    ticks.forEach((tick, index) => {
      const before = ticks[index - 1];
      if (before) expect(tick.at - before.at).toBeGreaterThanOrEqual(44);
    });
  });
});

describe("colours", () => {
  const link = { id: "a", from: "x", to: "y", configured_latency_us: 10_000, latency_us: 10_400, capacity_kbps: 100_000, reserved_kbps: 95_000 };

  test("follow the measured delay, or what is reserved", () => {
    expect(classOf(link, "delay")).toBe(1);
    expect(classOf({ ...link, latency_us: 400_000 }, "delay")).toBe(4);
    expect(classOf({ ...link, latency_us: null }, "delay")).toBeNull();
    expect(classOf(link, "use")).toBe(4);
  });

  test("a tenth and a millisecond over the configured delay is slow", () => {
    expect(isSlow({ ...link, latency_us: 12_000 })).toBe(false);
    expect(isSlow({ ...link, latency_us: 12_001 })).toBe(true);
    expect(isSlow({ ...link, latency_us: null })).toBe(false);
  });
});

test("arrow keys go round the marks", () => {
  expect(target("ArrowRight", 2, 3)).toBe(0);
  expect(target("ArrowLeft", 0, 3)).toBe(2);
  expect(target("End", 0, 3)).toBe(2);
  expect(target("x", 0, 3)).toBeNull();
  expect(target("Home", -1, 0)).toBeNull();
});
