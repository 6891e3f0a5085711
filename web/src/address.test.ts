import { expect, test } from "vitest";

import { href, parseFragment } from "./router";
import { tokenFromFragment } from "./session";

test("addresses go through the fragment and back", () => {
  const made = href(["links", "a b~/1"], { state: "pending" });
  expect(made).toBe("#/links/a%20b~%2F1?state=pending");
  const { path, query } = parseFragment(made);
  expect(path).toEqual(["links", "a b~/1"]);
  expect(query.get("state")).toBe("pending");
  expect(parseFragment("").path).toEqual([]);
  expect(parseFragment("#/links/%E0%A4%A").path).toEqual(["links", "%E0%A4%A"]);
});

test.each([
  ["#token=abc", "abc", "#/"],
  ["#token=a%2Bb", "a+b", "#/"],
  ["#/orders?token=abc", "abc", "#/orders"],
  ["#/orders?state=held&token=abc", "abc", "#/orders?state=held"],
  ["#/orders?token=abc&state=held", "abc", "#/orders?state=held"],
])("a token is taken out of %s", (fragment, token, rest) => {
  expect(tokenFromFragment(fragment)).toEqual({ token, rest });
});

test("other fragments carry none", () => {
  expect(tokenFromFragment("#/orders")).toBeNull();
  expect(tokenFromFragment("#/orders?mytoken=1")).toBeNull();
});
