import { useMutation } from "@tanstack/react-query";
import { type ReactNode, useEffect, useRef, useState } from "react";

import { idempotencyKey, post, Refused, releaseQuote, Unreachable } from "../api/client";
import { useDatasets, useRegions, useSites } from "../api/queries";
import type { Order, Quote } from "../api/types";
import { useI18n } from "../i18n";
import { failuresOf, ProblemView } from "../parts/ProblemView";
import { CostTerms } from "../parts/CostTerms";
import { Editor } from "../parts/Editor";
import { exampleOrder } from "../parts/example";
import { PlanView } from "../parts/PlanView";
import { readDocument } from "../parts/document";
import { useNow } from "../parts/tags";
import { WhyPanel } from "../parts/WhyPanel";
import { href, navigate } from "../router";

const KEPT = "rhumb.draft";

/** Posts with a key that stays the same while no answer came, so that a repeat can never order twice. */
function usePost<T>(path: "/v1/quotes" | "/v1/orders") {
  const pending = useRef<{ body: string; key: string } | null>(null);
  return useMutation<T, Error, unknown>({
    mutationFn: async (body) => {
      const text = JSON.stringify(body);
      if (pending.current?.body !== text) pending.current = { body: text, key: idempotencyKey() };
      try {
        const answer = (await post(path, body, pending.current.key)) as T;
        pending.current = null;
        return answer;
      } catch (error) {
        if (!(error instanceof Unreachable)) pending.current = null;
        throw error;
      }
    },
  });
}

interface HeldQuote {
  hold: (quote: Quote) => void;
  giveBack: () => void;
  /** The order made of it has taken over what it holds. */
  used: () => void;
}

/** A binding quote holds devices; one that is not ordered is given back as soon as it is out of sight. */
function useHeldQuote(): HeldQuote {
  const shown = useRef<string | null>(null);
  const [acts] = useState<HeldQuote>(() => ({
    hold: (quote) => {
      shown.current = quote.binding ? quote.id : null;
    },
    giveBack: () => {
      if (shown.current) void releaseQuote(shown.current);
      shown.current = null;
    },
    used: () => {
      shown.current = null;
    },
  }));
  useEffect(() => acts.giveBack, [acts]);
  return acts;
}

export default function NewOrder(): ReactNode {
  const { t } = useI18n();
  const [text, setText] = useState(() => sessionStorage.getItem(KEPT) ?? "");
  const [tried, setTried] = useState(false);
  const written = readDocument(text);
  const quote = usePost<Quote>("/v1/quotes");
  const order = usePost<Order>("/v1/orders");
  const held = useHeldQuote();
  const models = (useSites().data ?? []).flatMap((site) => site.accelerators ?? []).map((group) => group.model);

  const edit = (next: string): void => {
    setText(next);
    sessionStorage.setItem(KEPT, next);
    held.giveBack();
    quote.reset();
    order.reset();
    setTried(false);
  };
  const send = (how: "quote" | "order"): void => {
    setTried(true);
    if (written.faults.length > 0) return;
    held.giveBack();
    quote.reset();
    order.reset();
    if (how === "quote") quote.mutate(written.value, { onSuccess: held.hold });
    else order.mutate(written.value, { onSuccess: opened });
  };
  const opened = (made: Order): void => {
    held.used();
    sessionStorage.removeItem(KEPT);
    navigate(href(["orders", made.id]));
  };

  const error = order.error ?? quote.error;
  const problem = error instanceof Refused ? error.problem : null;
  const failures = failuresOf(written, tried, problem, t);
  const busy = quote.isPending || order.isPending;

  return (
    <div className="page">
      <header className="page-head">
        <p className="crumb">
          <a href={href(["orders"])}>{t("orders.title")}</a>
        </p>
        <h1>{t("new.title")}</h1>
      </header>
      <div className="new-grid">
        <div>
          <Editor
            label={t("new.document")}
            value={text}
            onChange={edit}
            faults={failures}
            aside={
              text.trim() === "" ? (
                <button type="button" className="button" onClick={() => edit(exampleOrder(models[0] ?? "H100"))}>
                  {t("new.example")}
                </button>
              ) : null
            }
          />
          <div className="acts">
            <button type="button" className="button is-primary" onClick={() => send("quote")} disabled={busy}>
              {quote.isPending ? t("new.quoting") : t("new.quote")}
            </button>
            <button type="button" className="button" onClick={() => send("order")} disabled={busy}>
              {order.isPending ? t("new.ordering") : t("new.direct")}
            </button>
          </div>
          <ProblemView failures={failures} problem={problem} error={error} />
          {quote.data && (
            <QuoteView quote={quote.data} busy={busy} onOrder={(id) => order.mutate({ quote_id: id }, { onSuccess: opened })} />
          )}
        </div>
        <Names />
      </div>
    </div>
  );
}

interface QuoteProps {
  quote: Quote;
  busy: boolean;
  onOrder: (id: string) => void;
}

function QuoteView({ quote, busy, onOrder }: QuoteProps): ReactNode {
  const { t, format } = useI18n();
  const now = useNow();
  const expired = typeof quote.expires === "string" && Date.parse(quote.expires) <= now;
  const plan = quote.plan ?? null;
  const cost = plan?.cost ?? null;
  return (
    <section className="sheet quote" aria-live="polite" data-testid="quote">
      {quote.outcome === "plan" && plan ? (
        <>
          <header className="quote-head">
            {cost && <p className="quote-price">{format.money(cost.total_micros, cost.currency)}</p>}
            <p className="hint">
              {t(quote.binding ? "new.binding" : "new.indicative")}
              {quote.expires && <> · {expired ? t("new.expired") : t("new.expires", { time: format.time(quote.expires) })}</>}
            </p>
            <button type="button" className="button is-primary" onClick={() => onOrder(quote.id)} disabled={busy || expired}>
              {t("new.order")}
            </button>
          </header>
          <PlanView plan={plan} />
          {cost && (
            <>
              <h3>{t("order.cost")}</h3>
              <CostTerms cost={cost} plan={plan} />
            </>
          )}
          <h3>{t("order.why")}</h3>
        </>
      ) : (
        <h2>{t("new.refused")}</h2>
      )}
      <WhyPanel
        verdicts={quote.sites ?? []}
        reasons={quote.outcome === "plan" ? [] : (quote.reasons ?? [])}
        changes={quote.would_fit_if ?? []}
        currency={cost?.currency ?? null}
        plan={plan}
      />
    </section>
  );
}

/** What there is to name in an order: sites, devices, datasets, regions. */
function Names(): ReactNode {
  const { t, format } = useI18n();
  const sites = useSites().data ?? [];
  const datasets = useDatasets().data ?? [];
  const regions = useRegions().data ?? [];
  const models = [...new Set(sites.flatMap((site) => (site.accelerators ?? []).map((group) => group.model)))].sort();
  return (
    <aside className="sheet names">
      <h2>{t("new.names")}</h2>
      <h3>{t("new.names.devices")}</h3>
      <p className="mono">{models.join(", ") || t("none")}</p>
      <h3>{t("new.names.datasets")}</h3>
      <ul>
        {datasets.map((dataset) => (
          <li key={dataset.name}>
            <code>dataset/{dataset.name}</code>
            <span className="is-dim">
              {dataset.size_bytes ? `${format.bytes(dataset.size_bytes)} · ` : ""}
              {dataset.at.join(", ")}
            </span>
          </li>
        ))}
      </ul>
      <h3>{t("new.names.regions")}</h3>
      <ul>
        {regions.map((region) => (
          <li key={region.name}>
            <code>region/{region.name}</code>
            <span className="is-dim">
              {region.at}
              {region.access_us ? ` + ${format.latency(region.access_us)}` : ""}
            </span>
          </li>
        ))}
      </ul>
      <h3>{t("new.names.sites")}</h3>
      <ul>
        {sites.map((site) => (
          <li key={site.name}>
            <code>{site.name}</code>
            <span className="is-dim">{[site.jurisdiction, ...(site.labels ?? [])].filter(Boolean).join(", ")}</span>
          </li>
        ))}
      </ul>
    </aside>
  );
}
