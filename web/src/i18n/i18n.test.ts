import { describe, expect, test } from "vitest";

import { PHASES, STATES } from "../parts/plan";
import { en } from "./en";
import { firstLocale } from "./index";
import { translate, wordOf } from "./translate";
import { zh } from "./zh";

const holes = (text: string): string[] => [...text.matchAll(/\{(\w+)\}/g)].map((match) => match[1] ?? "").sort();

describe("dictionaries", () => {
  test("have the same keys in the same order", () => {
    expect(Object.keys(zh)).toEqual(Object.keys(en));
  });

  test.each(Object.keys(en) as (keyof typeof en)[])("%s has the same places to fill in both, and a text", (key) => {
    expect(holes(zh[key])).toEqual(holes(en[key]));
    expect(en[key].trim()).not.toBe("");
    expect(zh[key].trim()).not.toBe("");
  });

  test("know every word that the server may say", () => {
    const reasons =
      "not_allowed jurisdiction label model precision memory interconnect shape capacity quota budget price_window no_path latency bandwidth encryption stale draining deadline search_limit";
    const words = {
      state: [...STATES],
      phase: [...PHASES],
      reason: reasons.split(" "),
      site: ["ready", "draining", "lost", "never_seen"],
      tier: ["core", "cloud", "edge", "device"],
      route: ["building", "active", "degraded", "moving", "terminating", "terminated", "failed"],
      verdict: ["chosen", "dearer", "refused"],
      usage: ["accelerator_seconds", "cpu_seconds", "gb_moved", "mbps_hours"],
    };
    for (const [kind, list] of Object.entries(words)) for (const word of list) expect(Object.keys(en)).toContain(`${kind}.${word}`);
  });
});

test("a word that no dictionary knows stays as the server said it", () => {
  expect(wordOf(zh, "reason", "solar_flare")).toBe("solar_flare");
  expect(wordOf(zh, "reason", "quota")).toBe("超出配额");
});

test("places are filled, and a missing value stays visible", () => {
  expect(translate("Order {name}: {state}", { name: "a", state: 3 })).toBe("Order a: 3");
  expect(translate("Order {name}", {})).toBe("Order {name}");
});

test("the kept language wins, then the browser's first known one, then English", () => {
  expect(firstLocale("zh", ["en-GB"])).toBe("zh");
  expect(firstLocale(null, ["fr-FR", "zh-TW", "en"])).toBe("zh");
  expect(firstLocale("xx", ["en-GB", "zh-CN"])).toBe("en");
  expect(firstLocale(null, ["de"])).toBe("en");
});
