// Not a test of behaviour: draws every page in both languages and both shades, for people to look at.
// Runs only with SCREENS=folder.
import type { Page } from "@playwright/test";

import { HOLDER, SERVICE } from "./mock/network";
import { PENDING_ID } from "./mock/orders";
import { expect, type Target, test } from "./setup";

const folder = process.env["SCREENS"];
test.skip(!folder, "set SCREENS to a folder to draw the pages");

const PAGES: [string, string][] = [
  ["map", "#/"],
  ["map-order", `#/?order=${HOLDER}`],
  ["orders", "#/orders"],
  ["order", `#/orders/${HOLDER}`],
  ["order-service", `#/orders/${SERVICE}`],
  ["order-pending", `#/orders/${PENDING_ID}`],
  ["new", "#/orders/new"],
  ["sites", "#/sites"],
  ["site", "#/sites/shanghai-1"],
  ["links", "#/links"],
  ["link", "#/links/xa-bj"],
  ["routes", "#/routes"],
];

for (const locale of ["en-GB", "zh-CN"]) {
  for (const colorScheme of ["light", "dark"] as const) {
    test(`pages in ${locale}, ${colorScheme}`, async ({ browser, server }) => {
      test.setTimeout(300_000);
      const context = await browser.newContext({ locale, colorScheme, viewport: { width: 1440, height: 900 }, timezoneId: "Asia/Shanghai" });
      const page = await context.newPage();
      const draw = (name: string) => page.screenshot({ path: `${folder ?? ""}/${name}-${locale.slice(0, 2)}-${colorScheme}.png`, fullPage: true });
      await page.goto(server.url);
      await draw("login");
      await page.goto(`${server.url}/#token=${server.token}`);
      await expect(page.getByTestId("line")).toHaveClass(/is-live/);
      for (const [name, address] of PAGES) {
        await page.goto(`${server.url}/${address}`);
        await expect(page.locator(".loading")).toHaveCount(0);
        if (name === "link") await expect(page.getByTestId("chart").locator("canvas")).toBeVisible();
        if (name === "map") await page.locator('[data-node="frankfurt-1"]').click();
        await draw(name);
      }
      await drawStates(page, server, draw);
      await context.close();
    });
  }
}

/** What is not a page of its own: tips, dialogs, faults, a narrow screen. */
async function drawStates(page: Page, server: Target, draw: (name: string) => Promise<unknown>): Promise<void> {
  await page.goto(`${server.url}/#/`);
  await page.locator('[data-link="bj-fr"]').focus();
  await draw("map-tip");
  await page.goto(`${server.url}/#/orders/${HOLDER}`);
  await page.locator(".page-head > .button.is-danger").click();
  await draw("order-cancel");
  await page.keyboard.press("Escape");
  await page.goto(`${server.url}/#/orders/new`);
  await page.locator("textarea").fill("name: x\nclass: sorcery\ncomponents: []\n");
  await page.locator(".acts .button").first().click();
  await expect(page.getByTestId("problem")).toBeVisible();
  await draw("new-problem");
  await page.locator("textarea").fill("name: x\nclass: inference\ncomponents: []\n");
  await page.locator(".acts .button").first().click();
  await expect(page.getByTestId("quote")).toBeVisible();
  await draw("new-quote");
  await page.goto(`${server.url}/#/sites/nowhere`);
  await expect(page.getByRole("alert")).toBeVisible();
  await draw("not-found");
  await page.setViewportSize({ width: 400, height: 860 });
  for (const [name, address] of [["map", "#/"], ["order", `#/orders/${HOLDER}`], ["orders", "#/orders"]] as const) {
    await page.goto(`${server.url}/${address}`);
    await expect(page.locator(".loading")).toHaveCount(0);
    await draw(`narrow-${name}`);
  }
}
