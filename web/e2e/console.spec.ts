// What the console does, against the stand-in server.
import { HOLDER } from "./mock/network";
import { PENDING_ID } from "./mock/orders";
import { enter, expect, test } from "./setup";

test.skip(process.env["RHUMB_URL"] !== undefined, "these tests play the server's part themselves");

test("orders, sites and links change on the screen as the server tells", async ({ watched: page, server, mock }) => {
  await enter(page, server, "#/orders");
  const row = page.locator("tbody tr", { hasText: "wide-pretrain" });
  await expect(row.locator("[data-state]")).toHaveAttribute("data-state", "pending");
  await expect(page.getByTestId("line")).toHaveClass(/is-live/);
  mock.setOrder(PENDING_ID, { state: "inProgress", phase: "reserving" });
  await expect(row.locator("[data-state]")).toHaveAttribute("data-state", "inProgress");
  await expect(page.getByTestId("news")).toHaveText("Order wide-pretrain: reserving");

  await page.goto(`${server.url}/#/`);
  await expect(page.locator('[data-node="singapore-1"]')).toHaveClass(/is-ready/);
  mock.setSite("singapore-1", { state: "lost", stale: true, observed_age_ms: 61_000 });
  await expect(page.locator('[data-node="singapore-1"]')).toHaveClass(/is-lost/);
  await expect(page.getByTestId("news")).toHaveText("Site singapore-1: lost");
  await expect(page.locator(".attention")).toContainText("singapore-1 does not answer");

  mock.setLink("hk-sg", { latency_us: 217_400 });
  await expect(page.locator('[data-link="hk-sg"]')).toHaveAttribute("aria-label", /Measured 217\.\d\sms, Configured 17\.4\sms/);
  await expect(page.locator(".attention")).toContainText(/hk-sg is .* slower than configured/);
});

test("a broken line is said, and taken up again where it ended", async ({ page, server, mock }) => {
  await enter(page, server, "#/orders");
  await expect(page.getByTestId("line")).toHaveText("Live");
  mock.setOrder(HOLDER, { phase: "stopping" });
  await expect(page.locator("tbody tr", { hasText: "corpus-pretrain" })).toContainText("stopping");
  mock.down = true;
  mock.dropStreams();
  await expect(page.getByTestId("line")).toHaveText(/Line lost|Connecting/);
  mock.down = false;
  mock.setOrder(HOLDER, { phase: "releasing" });
  await expect(page.getByTestId("line")).toHaveText("Live");
  await expect(page.locator("tbody tr", { hasText: "corpus-pretrain" })).toContainText("releasing");
  expect(Number(mock.streamHeaders["last-event-id"])).toBeGreaterThan(0);
});

test("a server that is gone is said, and tried again", async ({ page, server, mock }) => {
  await enter(page, server, "#/sites/shanghai-1");
  await expect(page.locator("main h1")).toHaveText("shanghai-1");
  mock.down = true;
  mock.dropStreams();
  await page.goto(`${server.url}/#/sites/tokyo-1`);
  await expect(page.getByRole("alert")).toContainText("The server does not answer");
  mock.down = false;
  await page.getByRole("button", { name: "Try again" }).click();
  await expect(page.locator("main h1")).toHaveText("tokyo-1");
});

test("a wrong token is refused at the door, and a revoked one ends the session", async ({ page, server, mock }) => {
  await page.goto(server.url);
  await page.locator("#token").fill("nonsense");
  await page.locator("button[type=submit]").click();
  await expect(page.getByRole("alert")).toHaveText("The server does not accept this token.");
  await page.goto(`${server.url}/#token=revoked`);
  await expect(page.getByRole("alert")).toHaveText("The token is no longer accepted. Sign in again.");
  expect(mock.listeners).toBe(0);
});

test("what is not there is said to be not there", async ({ page, server, mock }) => {
  mock.orders = [];
  await enter(page, server, "#/orders/none-such");
  await expect(page.getByRole("alert")).toContainText("There is nothing here");
  await page.goto(`${server.url}/#/orders`);
  await expect(page.locator(".state-block")).toContainText("No order yet");
  await page.goto(`${server.url}/#/nowhere`);
  await expect(page.locator(".state-block")).toContainText("There is nothing here");
});

test("an order shows its phases, plan, costs, verdicts and output", async ({ watched: page, server, mock }) => {
  expect(mock.orders.length).toBeGreaterThan(0);
  await enter(page, server, `#/orders/${HOLDER}`);
  await expect(page.locator(".stepper [aria-current=step]")).toContainText("running");
  await expect(page.locator(".order-main")).toContainText("xa-gy~ › xa-bj");
  const why = page.getByTestId("why");
  await expect(why.locator("[data-verdict=chosen]")).toHaveCount(2);
  await expect(why.locator("[data-verdict=dearer]").first()).toContainText("CN¥2.41 more");
  await expect(why.locator("[data-verdict=refused]").first()).toContainText("too far away");
  await expect(page.locator(".order-side")).toContainText("CN¥16.60");
  await page.getByRole("button", { name: "Show output" }).click();
  await expect(page.locator(".logs")).toContainText("step 20 loss 3.231");
  await expect(page.locator(".order-map .on-path")).toHaveCount(4);

  await page.goto(`${server.url}/#/orders/${PENDING_ID}`);
  await expect(why).toContainText("free, but fragmented");
  await expect(why.locator(".changes")).toContainText("/components/0/need/accelerators/count");
  await expect(why.locator(".changes")).toContainText("the plan would then cost CN¥42.00");
});

test("an order is cancelled only after a second word, against its present state", async ({ watched: page, server, mock }) => {
  await enter(page, server, `#/orders/${HOLDER}`);
  await page.getByRole("button", { name: "Cancel order" }).click();
  await expect(page.getByRole("dialog")).toContainText("Cancel corpus-pretrain?");
  await page.keyboard.press("Escape");
  await expect(page.getByRole("dialog")).toHaveCount(0);
  expect(mock.asked.filter((call) => call.startsWith("DELETE"))).toEqual([]);
  await page.getByRole("button", { name: "Cancel order" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel the order" }).click();
  await expect(page.locator(".page-head [data-state]")).toHaveAttribute("data-state", "cancelling");
  await expect(page.getByRole("button", { name: "Cancel order" })).toHaveCount(0);
  expect(mock.asked).toContain(`DELETE /v1/orders/${HOLDER}`);
});

test("a document is quoted, its faults are shown where they stand, and it is ordered", async ({ page, server, mock }) => {
  await enter(page, server, "#/orders/new");
  const text = page.locator("textarea");
  await text.fill("name: x\nclass: sorcery\ncomponents: []\n");
  await page.getByRole("button", { name: "Get a quote" }).click();
  await expect(page.getByTestId("problem")).toContainText("line 2");
  await expect(page.getByTestId("problem")).toContainText('unknown class "sorcery"');
  await expect(page.locator(".gutter .is-fault")).toHaveText("2");

  await text.fill("name: x\nname: y\n");
  const asked = mock.asked.length;
  await page.getByRole("button", { name: "Get a quote" }).click();
  await expect(page.getByTestId("problem")).toContainText("This is not valid YAML");
  expect(mock.asked.slice(asked).filter((call) => call.startsWith("POST"))).toEqual([]);

  await text.fill("name: too-wide\nclass: training\n");
  await page.getByRole("button", { name: "Get a quote" }).click();
  await expect(page.getByTestId("quote")).toContainText("This order does not fit now");
  await expect(page.getByTestId("quote")).toContainText("It would fit if");

  await text.fill("name: answers\nclass: inference\n");
  await page.getByRole("button", { name: "Get a quote" }).click();
  await expect(page.getByTestId("quote")).toContainText("CN¥168.00");
  await text.press("End");
  await text.pressSequentially("# ");
  await expect(page.getByTestId("quote")).toHaveCount(0);
  expect(mock.asked.at(-1)).toBe("DELETE /v1/quotes/0197a2c5-0000-7000-8000-0000000000aa");
  await page.getByRole("button", { name: "Get a quote" }).click();
  await expect(page.getByTestId("quote")).toContainText("CN¥168.00");
  await page.getByRole("button", { name: "Order at this price" }).click();
  await expect(page).toHaveURL(/#\/orders\/0197a2c5-1111/);
  await expect(page.locator("main h1")).toHaveText("from-quote");
  expect(new Set(mock.postKeys).size).toBe(mock.postKeys.length);
  expect(mock.postKeys.every((key) => /^[0-9a-f]{32}$/.test(key))).toBe(true);
});

test("the map is worked by keyboard", async ({ watched: page, server, mock }) => {
  expect(mock.sites.length).toBeGreaterThan(0);
  await enter(page, server);
  await expect(page.locator("[data-node]").first()).toBeVisible();
  const stops = await page.locator("svg [tabindex='0'][data-mark]").count();
  expect(stops).toBe(2);
  await page.locator("[data-node][tabindex='0']").focus();
  await expect(page.getByRole("tooltip")).toContainText("shanghai-1");
  await page.keyboard.press("ArrowRight");
  await expect(page.getByRole("tooltip")).toContainText("beijing-1");
  await page.keyboard.press("Enter");
  await expect(page.locator(".pinned")).toContainText("beijing-1");
  await page.locator(".pinned a").click();
  await expect(page.locator("main h1")).toHaveText("beijing-1");
});

test("zooming moves the marks apart, and fitting brings them back", async ({ watched: page, server, mock }) => {
  expect(mock.links.length).toBeGreaterThan(0);
  await enter(page, server);
  const node = page.locator('[data-node="beijing-1"]');
  await expect(node).toBeVisible();
  const before = await node.getAttribute("transform");
  await page.getByRole("button", { name: "Zoom in" }).click();
  await expect(node).not.toHaveAttribute("transform", before ?? "");
  await page.getByRole("button", { name: "Fit to sites" }).click();
  await expect(node).toHaveAttribute("transform", before ?? "");
});

test("the path of an order is shown on the map, and links are coloured by use on demand", async ({ watched: page, server, mock }) => {
  expect(mock.orders.length).toBeGreaterThan(0);
  await enter(page, server);
  await page.locator("select").selectOption({ label: "corpus-pretrain" });
  await expect(page.locator(".link.on-path")).toHaveCount(4);
  await expect(page.locator(".node.is-chosen")).toHaveCount(2);
  const full = page.locator('[data-link="sh-hk"]');
  const before = await full.getAttribute("style");
  await page.locator("input[value=use]").check({ force: true });
  await expect(full).not.toHaveAttribute("style", before ?? "");
});

test("the first tab stop skips to the content", async ({ watched: page, server, mock }) => {
  expect(mock.sites.length).toBeGreaterThan(0);
  await enter(page, server, "#/sites");
  await page.reload();
  await expect(page.locator("tbody tr").first()).toBeVisible();
  await page.locator("body").press("Tab");
  await expect(page.locator(".skip")).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(page.locator("main")).toBeFocused();
  await expect(page).toHaveURL(/#\/sites$/);
});

test("a link shows its round trips over time and how far to look back is chosen", async ({ watched: page, server, mock }) => {
  await page.goto(`${server.url}/#token=${server.token}`);
  await expect(page.getByTestId("line")).toHaveClass(/is-live/);
  await page.goto(`${server.url}/#/links/xa-bj`);
  const history = page.getByTestId("history");
  await expect(history.locator("canvas")).toHaveCount(2);
  await history.getByRole("button", { name: "24 h" }).click();
  await expect(history.getByRole("button", { name: "24 h" })).toHaveAttribute("aria-pressed", "true");
  await expect(history.locator("canvas")).toHaveCount(2);
  expect(mock.asked.filter((line) => line === "GET /v1/links/xa-bj/history").length).toBeGreaterThan(1);
});

test("a site's nodes are drawn with what joins their devices, and a held device leads to its order", async ({ watched: page, server }) => {
  await enter(page, server, "#/sites/shanghai-1");
  const sliced = page.locator(".node-card", { hasText: "shanghai-1-n2" });
  const drawing = sliced.getByTestId("topology");
  await expect(drawing.locator(".seat")).toHaveCount(8);
  await expect(drawing.locator("text", { hasText: "NUMA" })).toHaveCount(2);
  await expect(drawing.locator("text", { hasText: "PCIe" })).toHaveCount(4);
  await expect(drawing.locator(".nvlink")).toHaveCount(1);
  await expect(drawing.locator(".slice.is-held")).toHaveCount(2);
  await expect(sliced).toContainText("2 × 1g.10gb, 1 × 2g.20gb");
  await page.locator(".node-card", { hasText: "shanghai-1-n0" }).locator(".topology a").first().click();
  await expect(page).toHaveURL(/#\/orders\//);
});
