// Runs against the stand-in, or with RHUMB_URL and RHUMB_TOKEN against a real server.
import { enter, expect, test } from "./setup";

test("a token typed in once opens the console", async ({ watched: page, server }) => {
  await page.goto(server.url);
  await page.locator("#token").fill(server.token);
  await page.locator("button[type=submit]").click();
  await expect(page.getByTestId("line")).toHaveClass(/is-live/);
  await page.reload();
  await expect(page.getByTestId("line")).toHaveClass(/is-live/);
});

test("a token in the fragment opens the console and leaves the address bar", async ({ watched: page, server }) => {
  await page.goto(`${server.url}/#token=${server.token}`);
  await expect(page.getByTestId("line")).toHaveClass(/is-live/);
  expect(page.url()).not.toContain(server.token);
});

test("the map shows the sites and links with their measured figures", async ({ watched: page, server }) => {
  await enter(page, server);
  await expect(page.locator("[data-node]").first()).toBeVisible();
  expect(await page.locator("[data-node]").count()).toBeGreaterThanOrEqual(8);
  expect(await page.locator("[data-link]").count()).toBeGreaterThanOrEqual(10);
  await expect(page.locator(".metric")).toHaveCount(4);
  await page.locator("[data-link]").first().focus();
  await page.keyboard.press("Enter");
  await expect(page.locator(".pinned dl.figures-pair dd")).toHaveCount(2);
  await expect(page.locator(".pinned dl.figures-pair dd").first()).toHaveText(/\d\sms|–/);
});

test("sites and links are listed, and each has its page", async ({ watched: page, server }) => {
  await enter(page, server, "#/sites");
  await expect(page.locator("tbody tr").nth(7)).toBeVisible();
  await page.locator(".row-link").first().click();
  await expect(page.locator(".node-card").first()).toBeVisible();
  await expect(page.locator(".device").first()).toBeVisible();

  await page.goto(`${server.url}/#/links`);
  await expect(page.locator("tbody tr").nth(9)).toBeVisible();
  await page.locator(".row-link").first().click();
  await expect(page.getByTestId("chart").locator("canvas")).toBeVisible({ timeout: 30_000 });
  await expect(page.getByTestId("history").getByRole("button", { name: "6 h" })).toHaveAttribute("aria-pressed", "true");
});

test("an order says why it runs where it does", async ({ watched: page, server }) => {
  await enter(page, server, "#/orders");
  await expect(page.locator(".loading")).toHaveCount(0);
  if ((await page.locator("tbody tr").count()) > 0) await page.locator(".row-link").first().click();
  else {
    await page.goto(`${server.url}/#/orders/new`);
    await page.locator(".editor-head .button").click();
    await page.locator(".acts .button").nth(1).click();
  }
  await expect(page.getByTestId("why")).toBeVisible();
  await expect(page.getByTestId("why").locator("[data-verdict]").first()).toBeVisible({ timeout: 30_000 });
});

test("the routes page opens", async ({ watched: page, server }) => {
  await enter(page, server, "#/routes");
  await expect(page.locator("main h1")).toBeVisible();
  await expect(page.locator(".loading")).toHaveCount(0);
  await expect(page.getByRole("alert")).toHaveCount(0);
});

test("language and colours change at a press and are kept", async ({ watched: page, server }) => {
  await enter(page, server, "#/sites");
  await expect(page.locator("main h1")).toHaveText("Sites");
  await page.getByTestId("language").click();
  await expect(page.locator("main h1")).toHaveText("站点");
  await expect(page.locator("html")).toHaveAttribute("lang", "zh-CN");
  const before = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await page.getByTestId("theme").click();
  await page.getByTestId("theme").click();
  await expect(page.locator("html")).toHaveAttribute("data-theme", "dark");
  expect(await page.evaluate(() => getComputedStyle(document.body).backgroundColor)).not.toBe(before);
  await page.reload();
  await expect(page.locator("main h1")).toHaveText("站点");
  await expect(page.locator("html")).toHaveAttribute("data-theme", "dark");
});
