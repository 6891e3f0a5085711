// Lays the server's events over what has been read, tells the rest of the console how the line is,
// and says aloud (aria-live) what changed.
import { type QueryClient, useQueryClient } from "@tanstack/react-query";
import { createContext, type ReactNode, useContext, useEffect, useMemo, useState } from "react";

import { useI18n } from "../i18n";
import { currentToken, signOut } from "../session";
import { judged, mergeBy, mergeOrder, type OrderPages, placed, stamp } from "./merge";
import { forgetSeries, record } from "./series";
import { openStream, type StreamStatus } from "./stream";
import type { Link, Order, Received, Site, Transit } from "./types";

interface Live {
  status: StreamStatus;
  /** The last change worth saying aloud. */
  news: string;
}

const LiveContext = createContext<Live>({ status: "connecting", news: "" });

export function useLive(): Live {
  return useContext(LiveContext);
}

type Say = { what: "order"; order: Order } | { what: "site"; site: Site };

export function LiveProvider({ children }: { children: ReactNode }): ReactNode {
  const client = useQueryClient();
  const { t, word } = useI18n();
  const [status, setStatus] = useState<StreamStatus>("connecting");
  const [said, setSaid] = useState<Say | null>(null);

  useEffect(() => {
    let lost = false;
    const close = openStream({
      url: new URL("/v1/events", location.origin).href,
      headers: () => ({ Authorization: `Bearer ${currentToken() ?? ""}` }),
      onEvent: ({ event, data }) => apply(client, event ?? "message", data, setSaid),
      onStatus: (next) => {
        setStatus(next);
        if (next === "waiting") lost = true;
        if (next === "refused") signOut("rejected");
        if (next === "live" && lost) {
          lost = false;
          void client.invalidateQueries();
        }
      },
    });
    return () => {
      close();
      forgetSeries();
    };
  }, [client]);

  const news = useMemo(() => {
    if (!said) return "";
    if (said.what === "site") return t("live.site", { name: said.site.name, state: word("site", said.site.state) });
    const phase = said.order.state === "inProgress" && said.order.phase ? word("phase", said.order.phase) : word("state", said.order.state);
    return t("live.order", { name: said.order.name, state: phase });
  }, [said, t, word]);

  const value = useMemo(() => ({ status, news }), [status, news]);
  return <LiveContext value={value}>{children}</LiveContext>;
}

function apply(client: QueryClient, event: string, data: string, say: (what: Say) => void): void {
  let changed: unknown;
  try {
    changed = JSON.parse(data) as unknown;
  } catch {
    return;
  }
  const items = Array.isArray(changed) ? (changed as unknown[]) : [changed];
  if (event === "order") applyOrders(client, items as Order[], say);
  else if (event === "site") applySites(client, items as Site[], say);
  else if (event === "link") applyLinks(client, items as Link[]);
  else if (event === "transit") applyTransit(client, items as Transit[]);
  else if (event === "event") applyHistory(client, items as { order?: string }[]);
  else if (event === "route") soon(client, ["routes"]);
}

/** A burst of events asks for one read, not for one each. */
const SOON_MS = 250;
const waiting = new Set<string>();

function soon(client: QueryClient, queryKey: string[]): void {
  const name = JSON.stringify(queryKey);
  if (waiting.has(name)) return;
  waiting.add(name);
  setTimeout(() => {
    waiting.delete(name);
    void client.invalidateQueries({ queryKey });
  }, SOON_MS);
}

function applyOrders(client: QueryClient, orders: Order[], say: (what: Say) => void): void {
  for (const order of stamp(orders.filter((order) => typeof order.id === "string"))) {
    for (const [key, pages] of client.getQueriesData<OrderPages>({ queryKey: ["orders"] })) {
      if (pages) client.setQueryData(key, mergeOrder(pages, order, typeof key[1] === "string" ? key[1] : ""));
    }
    const known = client.getQueryData<Received<Order>>(["order", order.id]);
    if (known) client.setQueryData(["order", order.id], { ...known, ...order });
    for (const part of ["explain", "events", "usage"]) soon(client, ["order", order.id, part]);
    say({ what: "order", order: known ? { ...known, ...order } : order });
  }
  soon(client, ["routes"]);
  soon(client, ["metrics"]);
}

function applyHistory(client: QueryClient, entries: { order?: string }[]): void {
  for (const { order } of entries) if (order) soon(client, ["order", order, "events"]);
}

function applyTransit(client: QueryClient, points: Transit[]): void {
  const before = client.getQueryData<Received<Transit>[]>(["transit"]);
  if (before) client.setQueryData(["transit"], mergeBy(before, stamp(points.map(placed)), (point) => point.name));
}

function applySites(client: QueryClient, sites: Site[], say: (what: Say) => void): void {
  const changes = stamp(sites.filter((site) => typeof site.name === "string").map(placed));
  const before = client.getQueryData<Received<Site>[]>(["sites"]);
  if (before) client.setQueryData(["sites"], mergeBy(before, changes, (site) => site.name));
  for (const site of changes) {
    // Read again rather than laid over: an event does not say whose order holds a device, an answer does.
    soon(client, ["site", site.name]);
    const old = before?.find((one) => one.name === site.name);
    if (old && old.state !== site.state) say({ what: "site", site });
  }
}

function applyLinks(client: QueryClient, links: Link[]): void {
  const changes = stamp(links.filter((link) => typeof link.id === "string").map(judged));
  const before = client.getQueryData<Received<Link>[]>(["links"]);
  const after = before ? mergeBy(before, changes, (link) => link.id) : changes;
  if (before) client.setQueryData(["links"], after);
  for (const link of changes) {
    const known = client.getQueryData<Received<Link>>(["link", link.id]);
    if (known) client.setQueryData(["link", link.id], { ...known, ...link });
  }
  const ids = new Set(changes.map((link) => link.id));
  record(after.filter((link) => ids.has(link.id)));
}
