import type { ReactNode } from "react";

import { useOrders } from "../api/queries";
import type { Order } from "../api/types";
import { useI18n } from "../i18n";
import { Empty, Failure, Loading } from "../parts/Answer";
import { sitesOf, STATES } from "../parts/plan";
import { OrderState, Time } from "../parts/tags";
import { href } from "../router";

export default function Orders({ state }: { state: string }): ReactNode {
  const { t, word } = useI18n();
  const orders = useOrders(state);
  const items = orders.data?.pages.flatMap((page) => page.items) ?? [];
  const empty = state === "" ? t("orders.empty") : t("orders.empty.state");

  return (
    <div className="page">
      <header className="page-head">
        <h1>{t("orders.title")}</h1>
        <a className="button is-primary" href={href(["orders", "new"])}>
          {t("orders.new")}
        </a>
      </header>
      <nav className="filter" aria-label={t("orders.filter")}>
        {["", ...STATES].map((one) => (
          <a key={one} href={href(["orders"], one ? { state: one } : {})} aria-current={one === state ? "true" : undefined}>
            {one === "" ? t("orders.all") : word("state", one)}
          </a>
        ))}
      </nav>
      {orders.data === undefined && (orders.isError ? <Failure error={orders.error} onRetry={() => void orders.refetch()} /> : <Loading />)}
      {orders.data && items.length === 0 && (
        <Empty title={empty} hint={t("orders.empty.hint")}>
          <a className="button" href={href(["orders", "new"])}>
            {t("orders.new")}
          </a>
        </Empty>
      )}
      {items.length > 0 && <OrderTable orders={items} />}
      {orders.hasNextPage && (
        <button type="button" className="button" onClick={() => void orders.fetchNextPage()} disabled={orders.isFetchingNextPage}>
          {t("orders.more")}
        </button>
      )}
    </div>
  );
}

function OrderTable({ orders }: { orders: readonly Order[] }): ReactNode {
  const { t } = useI18n();
  return (
    <div className="table-box">
      <table>
        <caption className="visually-hidden">{t("orders.title")}</caption>
        <thead>
          <tr>
            <th scope="col">{t("col.name")}</th>
            <th scope="col">{t("col.state")}</th>
            <th scope="col">{t("col.where")}</th>
            <th scope="col" className="num">
              {t("col.start")}
            </th>
            <th scope="col" className="num">
              {t("col.finish")}
            </th>
            <th scope="col" className="num">
              {t("col.cost")}
            </th>
            <th scope="col" className="num">
              {t("col.created")}
            </th>
          </tr>
        </thead>
        <tbody>
          {orders.map((order) => (
            <OrderRow key={order.id} order={order} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function OrderRow({ order }: { order: Order }): ReactNode {
  const { t, format, word } = useI18n();
  const cost = order.plan?.cost ?? order.cost;
  const reasons = order.plan ? [] : [...new Set((order.reasons ?? []).map((reason) => reason.reason))];
  const where = order.plan ? [...sitesOf(order.plan)].join(", ") : reasons.map((reason) => word("reason", reason)).join(", ");
  return (
    <tr>
      <th scope="row">
        <a className="row-link" href={href(["orders", order.id])}>
          {order.name}
        </a>
        {order.attention && (
          <span className="flag is-bad" title={order.attention}>
            {t("map.attention")}
          </span>
        )}
      </th>
      <td>
        <OrderState order={order} />
      </td>
      <td className={order.plan ? "" : "is-dim"}>{where || "–"}</td>
      <td className="num">
        <Time at={order.plan?.start} />
      </td>
      <td className="num">
        <Time at={order.plan?.finish} />
      </td>
      <td className="num">{cost ? format.money(cost.total_micros, cost.currency) : "–"}</td>
      <td className="num">
        <Time at={order.created} />
      </td>
    </tr>
  );
}
