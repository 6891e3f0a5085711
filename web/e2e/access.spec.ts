// Contrast, names, roles and order of every page in both shades, by axe.
import AxeBuilder from "@axe-core/playwright";

import { HOLDER } from "./mock/network";
import { PENDING_ID } from "./mock/orders";
import { enter, expect, test } from "./setup";

test.skip(process.env["RHUMB_URL"] !== undefined, "these tests need the stand-in's orders");

const PAGES = ["#/", `#/?order=${HOLDER}`, "#/orders", `#/orders/${HOLDER}`, `#/orders/${PENDING_ID}`, "#/orders/new", "#/sites", "#/sites/shanghai-1", "#/links", "#/links/xa-bj", "#/routes"];

for (const colorScheme of ["light", "dark"] as const) {
  test.describe(colorScheme, () => {
    test.use({ colorScheme });

    test("signing in can be used by all", async ({ page, server }) => {
      await page.goto(server.url);
      await expect(page.locator("#token")).toBeVisible();
      expect(await faultsOf(page)).toEqual([]);
    });

    for (const address of PAGES) {
      test(`${address} can be used by all`, async ({ watched: page, server, mock }) => {
        expect(mock.orders.length).toBeGreaterThan(0);
        await enter(page, server, address);
        await expect(page.locator("main h1").first()).toBeAttached();
        await expect(page.locator(".loading")).toHaveCount(0);
        expect(await faultsOf(page)).toEqual([]);
      });
    }
  });
}

async function faultsOf(page: import("@playwright/test").Page): Promise<string[]> {
  const { violations } = await new AxeBuilder({ page }).withTags(["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]).analyze();
  return violations.flatMap((violation) => violation.nodes.map((node) => `${violation.id}: ${node.target.join(" ")} (${node.any[0]?.message ?? violation.help})`));
}
