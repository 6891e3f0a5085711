// A stand-in for the server: serves the built console under its content security policy, and answers from the
// figures beside it. Tests reach into it to change states, send events and take it off the line.
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { extname, join, normalize } from "node:path";

import { DATASETS, makeLinks, makeWindows, makeSites, METRICS, type MockLink, type MockSite, REGIONS, TRANSIT } from "./network";
import { eventsOf, explain, LOGS, makeOrders, type MockOrder, SERVICE_PLAN, USAGE } from "./orders";

export const TOKEN = "mock-token";
const DIST = join(import.meta.dirname, "..", "..", "dist");
const POLICY = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'";
const TYPES: Record<string, string> = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };

/** As strict as the server: a query with an unknown name is refused. */
const QUERIES: Record<string, string[]> = { orders: ["state", "name", "cursor", "limit"], routes: ["all"] };

interface Event {
  id: number;
  text: string;
}

export class Mock {
  sites: MockSite[] = makeSites();
  links: MockLink[] = makeLinks();
  orders: MockOrder[] = makeOrders();
  /** What was asked, as `METHOD path`, and the headers of the last event stream and of posts. */
  asked: string[] = [];
  streamHeaders: IncomingMessage["headers"] = {};
  postKeys: string[] = [];
  /** Answers nothing at all, as a server that is gone does. */
  down = false;
  private readonly streams = new Set<ServerResponse>();
  private readonly events: Event[] = [];
  private readonly server: Server;
  private beat: ReturnType<typeof setInterval> | undefined;

  constructor() {
    this.server = createServer((request, response) => void this.answer(request, response));
  }

  async start(port = 0): Promise<string> {
    if (!existsSync(join(DIST, "index.html"))) throw new Error("there is no built console in dist: run `npm run build` first");
    await new Promise<void>((resolve) => this.server.listen(port, "127.0.0.1", resolve));
    this.beat = setInterval(() => this.measure(), 2_000);
    const address = this.server.address();
    return `http://127.0.0.1:${typeof address === "object" && address ? address.port : port}`;
  }

  async stop(): Promise<void> {
    clearInterval(this.beat);
    this.dropStreams();
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  reset(): void {
    this.sites = makeSites();
    this.links = makeLinks();
    this.orders = makeOrders();
    this.asked = [];
    this.postKeys = [];
    this.down = false;
  }

  /** As the server does: only the entries of orders' histories have numbers; the rest is what is so now. */
  private write(event: string, data: string, id?: number): void {
    const text = `${id === undefined ? "" : `id: ${id}\n`}event: ${event}\ndata: ${data}\n\n`;
    if (id !== undefined) this.events.push({ id, text });
    for (const stream of this.streams) stream.write(text);
  }

  send(event: string, data: unknown): void {
    this.write(event, JSON.stringify(data));
  }

  get listeners(): number {
    return this.streams.size;
  }

  dropStreams(): void {
    for (const stream of this.streams) stream.destroy();
    this.streams.clear();
  }

  setOrder(id: string, change: Partial<MockOrder>): void {
    this.orders = this.orders.map((order) => (order.id === id ? { ...order, ...change } : order));
    const text = JSON.stringify({ order: id, kind: "x" });
    this.write("event", text, this.events.length + 1);
    this.write("order", JSON.stringify(this.orders.find((order) => order.id === id)));
  }

  setSite(name: string, change: Partial<MockSite>): void {
    this.sites = this.sites.map((site) => (site.name === name ? { ...site, ...change } : site));
    this.send("site", this.sites.find((site) => site.name === name));
  }

  setLink(id: string, change: Partial<MockLink>): void {
    this.links = this.links.map((link) => (link.id === id ? { ...link, ...change } : link));
    this.send("link", [this.links.find((link) => link.id === id)]);
  }

  private beats = 0;
  private measure(): void {
    this.beats += 1;
    const wave = Math.round(120 * Math.sin(this.beats / 2));
    const fresh = this.links.filter((link) => link.latency_us !== null && !link.stale);
    this.send(
      "link",
      fresh.map((link) => ({ ...link, latency_us: (link.latency_us ?? 0) + wave, age_ms: 300 })),
    );
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (this.down) {
      response.destroy();
      return;
    }
    const url = new URL(request.url ?? "/", "http://mock");
    if (!url.pathname.startsWith("/v1/")) {
      await serveFile(url.pathname, response);
      return;
    }
    this.asked.push(`${request.method ?? "GET"} ${url.pathname}`);
    if (request.headers.authorization !== `Bearer ${TOKEN}`) {
      problem(response, 401, "not signed in", "the token is not known");
      return;
    }
    if (url.pathname === "/v1/events") {
      this.openStream(request, response);
      return;
    }
    if (request.method === "DELETE" && url.pathname.startsWith("/v1/quotes/")) response.writeHead(204).end();
    else if (request.method === "POST") this.post(url, request, await bodyOf(request), response);
    else if (request.method === "DELETE") this.cancel(url, request, response);
    else this.get(url, response);
  }

  private openStream(request: IncomingMessage, response: ServerResponse): void {
    this.streamHeaders = request.headers;
    response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
    response.write("retry: 200\n\n");
    const last = request.headers["last-event-id"];
    if (last !== undefined) for (const event of this.events) if (event.id > Number(last)) response.write(event.text);
    this.streams.add(response);
    response.on("close", () => this.streams.delete(response));
  }

  private get(url: URL, response: ServerResponse): void {
    const [, , noun, id, part] = url.pathname.split("/").map(decodeURIComponent);
    const unknown = [...url.searchParams.keys()].find((name) => !(part === "history" && noun === "links" ? ["from", "to", "points"] : part ? ["after", "limit"] : (QUERIES[noun ?? ""] ?? [])).includes(name));
    if (unknown !== undefined) {
      problem(response, 400, "the request is malformed", `unknown field ${unknown}`);
      return;
    }
    const order = noun === "orders" && id ? this.orders.find((one) => one.id === id) : undefined;
    if (noun === "orders" && id && !order) problem(response, 404, "no such order", id);
    else if (order) json(response, this.orderPart(order, part, url.searchParams.get("after")), `"${String(order["updated"])}"`);
    else if (noun === "orders") {
      const state = url.searchParams.get("state");
      json(response, { items: this.orders.filter((one) => !state || one.state === state), next: null });
    } else if (noun === "metrics") json(response, METRICS);
    else {
      const lists: Record<string, { name?: string; id?: string; order?: string }[]> = {
        sites: this.sites,
        links: this.links,
        transit: TRANSIT,
        datasets: DATASETS,
        regions: REGIONS,
        routes: this.routes(),
      };
      const list = lists[noun ?? ""];
      const item = id === undefined ? undefined : list?.find((one) => one.name === id || one.id === id);
      if (item && noun === "links" && part === "history") json(response, { items: makeWindows(Date.now()), next: null });
      else if (!list || (id !== undefined && !item)) problem(response, 404, "not found", url.pathname);
      else json(response, item ?? { items: list, next: null });
    }
  }

  private orderPart(order: MockOrder, part: string | undefined, after: string | null): unknown {
    if (part === "explain") return explain(order);
    if (part === "events") return { items: eventsOf(order), next: null };
    if (part === "logs") {
      const rest = order["plan"] && after === "0" ? LOGS : [];
      return { items: rest, next: rest.length > 0 ? String(rest.reduce((sum, chunk) => sum + chunk.text.length, 0)) : null };
    }
    if (part === "usage") return order["plan"] ? USAGE : { items: [], total_micros: 0, currency: "CNY" };
    return order;
  }

  private routes() {
    const running = this.orders.find((order) => order.name === "corpus-pretrain");
    if (running?.state !== "inProgress") return [];
    return ["sh-bj", "sh-bj~"].map((link, leg) => {
      const [from = "", to = ""] = leg === 0 ? ["shanghai-1", "beijing-1"] : ["beijing-1", "shanghai-1"];
      return {
        order: running.id,
        order_name: running.name,
        generation: 1,
        leg,
        flow: 1,
        from,
        to,
        path: [link],
        provider: "overlay",
        encrypted: leg === 1,
        rate_kbps: 50_000,
        state: "active",
        hops: [
          { point: from, bytes: 412_900_000 },
          { point: to, bytes: 412_400_000 },
        ],
      };
    });
  }

  private post(url: URL, request: IncomingMessage, body: unknown, response: ServerResponse): void {
    this.postKeys.push(String(request.headers["idempotency-key"]));
    const document = body as { name?: string; class?: string; quote_id?: string; components?: { replicas?: unknown }[] };
    if (document.class !== undefined && !["training", "inference", "tuning", "processing"].includes(document.class)) {
      problem(response, 422, "the order document has errors", "1 field is wrong", [
        { pointer: "/class", reason: `unknown class "${document.class}": one of training, inference, tuning, processing` },
      ]);
      return;
    }
    if (url.pathname === "/v1/quotes") {
      const fits = document.name !== "too-wide";
      const [pending, , training] = this.orders as [MockOrder, MockOrder, MockOrder];
      const why = explain(fits ? training : pending);
      json(response, {
        id: "0197a2c5-0000-7000-8000-0000000000aa",
        expires: new Date(Date.now() + 300_000).toISOString(),
        binding: true,
        outcome: fits ? "plan" : "refusal",
        ...(fits ? { plan: SERVICE_PLAN } : { reasons: pending["reasons"] }),
        sites: why.sites,
        would_fit_if: why.would_fit_if,
      }, undefined, 201);
      return;
    }
    const made = { ...(this.orders[2] as MockOrder), id: "0197a2c5-1111-7000-8000-0000000000bb", name: document.name ?? "from-quote", state: "acknowledged", phase: null, plan: null, cost: null };
    this.orders = [made, ...this.orders];
    json(response, made, undefined, 201);
    this.send("order", made);
  }

  private cancel(url: URL, request: IncomingMessage, response: ServerResponse): void {
    const id = decodeURIComponent(url.pathname.split("/")[3] ?? "");
    const order = this.orders.find((one) => one.id === id);
    if (!order) problem(response, 404, "no such order", id);
    else if (request.headers["if-match"] !== `"${String(order["updated"])}"`) problem(response, 412, "the order has changed", "read it again");
    else {
      this.setOrder(id, { state: "cancelling", phase: "stopping", updated: new Date().toISOString() });
      json(response, this.orders.find((one) => one.id === id), undefined, 202);
    }
  }
}

async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return JSON.parse(Buffer.concat(parts).toString("utf8")) as unknown;
}

function json(response: ServerResponse, body: unknown, tag?: string, status = 200): void {
  response.writeHead(status, { "Content-Type": "application/json", ...(tag ? { ETag: tag } : {}) });
  response.end(JSON.stringify(body));
}

function problem(response: ServerResponse, status: number, title: string, detail: string, errors: object[] = []): void {
  response.writeHead(status, { "Content-Type": "application/problem+json" });
  response.end(JSON.stringify({ type: "about:blank", title, status, detail, errors }));
}

async function serveFile(path: string, response: ServerResponse): Promise<void> {
  const name = normalize(path === "/" ? "/index.html" : path);
  try {
    const body = await readFile(join(DIST, name));
    response.writeHead(200, { "Content-Type": TYPES[extname(name)] ?? "application/octet-stream", "Content-Security-Policy": POLICY });
    response.end(body);
  } catch {
    response.writeHead(404).end();
  }
}
