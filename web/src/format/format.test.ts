import { describe, expect, test } from "vitest";

import { createFormat } from ".";

const en = createFormat("en");
const zh = createFormat("zh-CN");
const plain = (text: string): string => text.replaceAll("\u00a0", " ").replaceAll("\u202f", " ");

describe("money", () => {
  test("is written by language and currency", () => {
    expect(en.money(15_466_667, "CNY")).toBe("CN¥15.47");
    expect(zh.money(15_466_667, "CNY")).toBe("¥15.47");
    expect(en.money(0, "CNY")).toBe("CN¥0.00");
  });

  test("keeps small amounts readable", () => {
    expect(en.money(33_600, "CNY")).toBe("CN¥0.0336");
    expect(en.money(320, "CNY")).toBe("CN¥0.00032");
  });

  test("shows the sign of a difference", () => {
    expect(en.moneyDelta(2_410_000, "CNY")).toBe("+CN¥2.41");
    expect(en.moneyDelta(-2_410_000, "CNY")).toBe("−CN¥2.41");
  });

  test("survives what is no currency", () => {
    expect(plain(en.money(1_500_000, "points"))).toBe("1.50 points");
  });
});

describe("network figures", () => {
  test("delays are in milliseconds, finer below ten", () => {
    expect(plain(en.latency(420))).toBe("0.42 ms");
    expect(plain(en.latency(6_100))).toBe("6.10 ms");
    expect(plain(en.latency(71_640))).toBe("71.6 ms");
    expect(plain(en.latencyDelta(-1_200))).toBe("−1.20 ms");
    expect(plain(en.latencyDelta(0))).toBe("±0.00 ms");
  });

  test("rates and volumes are decimal, memory is binary", () => {
    expect(plain(en.rate(200_000))).toBe("200 Mbps");
    expect(plain(en.rate(1_500_000))).toBe("1.5 Gbps");
    expect(plain(en.bytes(2_000_000_000_000))).toBe("2 TB");
    expect(plain(en.memory(80 * 1024 ** 3))).toBe("80 GiB");
  });

  test("losses keep parts per million", () => {
    expect(en.loss(100)).toBe("0.01%");
  });
});

describe("durations", () => {
  test.each([
    [850, "850 ms"],
    [4_260, "4.2 sec"],
    [59_999, "59 sec"],
    [185_000, "3 min 5 sec"],
    [7_800_000, "2 hr 10 min"],
    [3 * 86_400_000, "3 days"],
  ])("%i ms", (ms, text) => expect(plain(en.duration(ms))).toBe(text));

  test("in Chinese", () => expect(plain(zh.duration(185_000))).toBe("3分钟 5秒"));
});

describe("fields named by unit", () => {
  test("are written in it", () => {
    expect(plain(en.quantity(20_300, "latency_us"))).toBe("20.3 ms");
    expect(plain(en.quantity({ age_ms: 60_000 }))).toBe("age 1 min");
    expect(en.quantity(["CN", "SG"])).toBe("CN, SG");
    expect(en.quantity("8 × H100")).toBe("8 × H100");
    expect(en.quantity(null)).toBe("");
    expect(en.quantity(8)).toBe("8");
  });
});

test("a text that is no time stays as it is", () => {
  expect(en.time("soon")).toBe("soon");
});
