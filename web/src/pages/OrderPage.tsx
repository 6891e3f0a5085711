import { useMutation, useQueryClient } from "@tanstack/react-query";
import { lazy, type ReactNode, Suspense, useEffect, useMemo, useRef, useState } from "react";

import { cancelOrder } from "../api/client";
import { useExplanation, useLinks, useOrder, useOrderEvents, useSites, useTransit, useUsage } from "../api/queries";
import type { Order, Received } from "../api/types";
import { useI18n } from "../i18n";
import { Answer, Loading, messageOf } from "../parts/Answer";
import { CostTerms } from "../parts/CostTerms";
import { Logs } from "../parts/Logs";
import { FINAL_STATES, linksOf, sitesOf } from "../parts/plan";
import { PlanView } from "../parts/PlanView";
import { OrderState, Time, useAge } from "../parts/tags";
import { Stepper, Timeline } from "../parts/Timeline";
import { UsageView } from "../parts/UsageView";
import { WhyPanel } from "../parts/WhyPanel";
import { href } from "../router";

const NetworkMap = lazy(() => import("../map/NetworkMap"));

export default function OrderPage({ id }: { id: string }): ReactNode {
  const order = useOrder(id);
  return (
    <div className="page">
      <Answer query={order}>{(known) => <Known order={known} />}</Answer>
    </div>
  );
}

function Known({ order }: { order: Received<Order> }): ReactNode {
  const { t } = useI18n();
  const explanation = useExplanation(order.id);
  const events = useOrderEvents(order.id);
  const usage = useUsage(order.id);
  const cost = order.plan?.cost ?? order.cost ?? null;

  return (
    <>
      <Head order={order} />
      <Notices order={order} />
      <Stepper order={order} events={events.data ?? []} />
      <div className="order-grid">
        <div className="order-main">
          <section className="sheet" aria-labelledby="plan">
            <h2 id="plan">{t("order.plan")}</h2>
            {order.plan ? <PlanView plan={order.plan} /> : <p className="hint">{t("order.plan.none")}</p>}
          </section>
          <section className="sheet" aria-labelledby="why" data-testid="why">
            <h2 id="why">{t(order.plan ? "order.why" : "order.whynot")}</h2>
            <Answer query={explanation}>
              {(known) => (
                <WhyPanel
                  verdicts={known.sites ?? []}
                  reasons={order.plan ? [] : (known.reasons ?? [])}
                  changes={known.would_fit_if ?? []}
                  currency={cost?.currency ?? null}
                  plan={order.plan ?? null}
                />
              )}
            </Answer>
          </section>
          <section className="sheet" aria-labelledby="timeline">
            <h2 id="timeline">{t("order.timeline")}</h2>
            <Answer query={events}>{(known) => <Timeline events={known} />}</Answer>
          </section>
        </div>
        <div className="order-side">
          {order.plan && <PathMap order={order} />}
          {cost && (
            <section className="sheet" aria-labelledby="cost">
              <h2 id="cost">{t("order.cost")}</h2>
              <CostTerms cost={cost} plan={order.plan ?? null} />
            </section>
          )}
          <section className="sheet" aria-labelledby="usage">
            <h2 id="usage">{t("order.usage")}</h2>
            <Answer query={usage}>{(known) => <UsageView usage={known} quoted={cost} final={FINAL_STATES.has(order.state)} />}</Answer>
          </section>
          <Logs id={order.id} />
        </div>
      </div>
    </>
  );
}

function Head({ order }: { order: Order }): ReactNode {
  const { t } = useI18n();
  const done = FINAL_STATES.has(order.state) || order.state === "cancelling";
  return (
    <>
      <header className="page-head">
        <p className="crumb">
          <a href={href(["orders"])}>{t("orders.title")}</a>
        </p>
        <h1>{order.name}</h1>
        <OrderState order={order} />
        {!done && <CancelButton order={order} />}
      </header>
      <dl className="facts">
        <dt>{t("order.id")}</dt>
        <dd className="mono">{order.id}</dd>
        {order.tenant && (
          <>
            <dt>{t("order.tenant")}</dt>
            <dd>{order.tenant}</dd>
          </>
        )}
        <dt>{t("col.created")}</dt>
        <dd>
          <Time at={order.created} />
        </dd>
        <dt>{t("order.updated")}</dt>
        <dd>
          <Time at={order.updated} />
        </dd>
        {order.generation !== undefined && (
          <>
            <dt>{t("order.generation")}</dt>
            <dd>{order.generation}</dd>
          </>
        )}
      </dl>
    </>
  );
}

function Notices({ order }: { order: Received<Order> }): ReactNode {
  const { t } = useI18n();
  const age = useAge(order, order.observed_age_ms);
  return (
    <>
      {order.attention && (
        <p className="banner is-bad" role="alert">
          <b>{t("order.attention")}.</b> {order.attention}
        </p>
      )}
      {order.stale && age && (
        <p className="banner is-warn" role="status">
          {t("order.stale", { age })}
        </p>
      )}
    </>
  );
}

function CancelButton({ order }: { order: Order }): ReactNode {
  const { t } = useI18n();
  const client = useQueryClient();
  const dialog = useRef<HTMLDialogElement>(null);
  const [open, setOpen] = useState(false);
  const cancel = useMutation({
    mutationFn: () => cancelOrder(order.id),
    onSuccess: () => setOpen(false),
    onSettled: () => client.invalidateQueries({ queryKey: ["order", order.id] }),
  });

  useEffect(() => {
    if (open) dialog.current?.showModal();
    else dialog.current?.close();
  }, [open]);

  return (
    <>
      <button type="button" className="button is-danger" onClick={() => setOpen(true)}>
        {t("order.cancel")}
      </button>
      <dialog ref={dialog} onClose={() => setOpen(false)} aria-labelledby="cancel-title">
        <h2 id="cancel-title">{t("order.cancel.title", { name: order.name })}</h2>
        <p>{t("order.cancel.text")}</p>
        {cancel.isError && (
          <p className="fault" role="alert">
            {messageOf(cancel.error)}
          </p>
        )}
        <div className="dialog-acts">
          <button type="button" className="button" onClick={() => setOpen(false)}>
            {t("order.cancel.keep")}
          </button>
          <button type="button" className="button is-danger" onClick={() => cancel.mutate()} disabled={cancel.isPending}>
            {cancel.isPending ? t("order.cancel.busy") : t("order.cancel.do")}
          </button>
        </div>
      </dialog>
    </>
  );
}

function PathMap({ order }: { order: Order }): ReactNode {
  const { t } = useI18n();
  const sites = useSites().data;
  const transit = useTransit().data;
  const links = useLinks().data;
  const path = useMemo(() => linksOf(order.plan), [order.plan]);
  const chosen = useMemo(() => sitesOf(order.plan), [order.plan]);
  const points = useMemo(() => {
    const ends = (links ?? []).filter((link) => path.has(link.id)).flatMap((link) => [link.from, link.to]);
    return new Set([...chosen, ...ends]);
  }, [links, path, chosen]);
  if (!sites || !links) return null;
  return (
    <section className="sheet order-map">
      <Suspense fallback={<Loading />}>
        <NetworkMap data={{ sites, transit: transit ?? [], links }} colouring="delay" path={path} chosen={chosen} picked={null} onPick={() => undefined} fitTo={points} />
      </Suspense>
      <p>
        <a href={href([], { order: order.id })}>{t("order.map")}</a>
      </p>
    </section>
  );
}
