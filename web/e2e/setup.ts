import { test as base, type Page } from "@playwright/test";

import { Mock, TOKEN } from "./mock/server";

export interface Target {
  url: string;
  token: string;
  /** Absent when the tests run against a real server. */
  mock: Mock | null;
}

interface Fixtures {
  /** A page that fails its test on console errors, uncaught errors and requests to anywhere else. */
  watched: Page;
  /** The stand-in, reset. */
  mock: Mock;
}

interface WorkerFixtures {
  server: Target;
}

export const test = base.extend<Fixtures, WorkerFixtures>({
  server: [
    // Playwright wants the first argument destructured.
     
    async ({}, use) => {
      const [url, token] = [process.env["RHUMB_URL"], process.env["RHUMB_TOKEN"]];
      if (url && token) {
        await use({ url: url.replace(/\/$/, ""), token, mock: null });
        return;
      }
      const mock = new Mock();
      await use({ url: await mock.start(), token: TOKEN, mock });
      await mock.stop();
    },
    { scope: "worker" },
  ],
  mock: async ({ server }, use) => {
    if (!server.mock) throw new Error("this test needs the stand-in server: run it without RHUMB_URL");
    server.mock.reset();
    await use(server.mock);
  },
  watched: async ({ page, server }, use) => {
    const faults: string[] = [];
    page.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning") faults.push(message.text());
    });
    page.on("pageerror", (error) => faults.push(error.message));
    page.on("request", (request) => {
      const url = request.url();
      if (!url.startsWith(server.url) && !/^(data|blob):/.test(url)) faults.push(`request to ${url}`);
    });
    await use(page);
    if (faults.length > 0) throw new Error(`the page complained:\n${faults.join("\n")}`);
  },
});

export { expect } from "@playwright/test";

/** Opens the console signed in. */
export async function enter(page: Page, server: Target, fragment = "#/"): Promise<void> {
  await page.goto(`${server.url}/#token=${server.token}`);
  await page.goto(`${server.url}/${fragment}`);
}
