import { type ReactNode, type SubmitEvent, useState } from "react";

import { Refused, tryToken } from "../api/client";
import { type Key, useI18n } from "../i18n";
import { LanguageButton, Mark, ThemeButton } from "../parts/Shell";
import { signIn, type SignOutCause } from "../session";

export function Login({ cause }: { cause: SignOutCause }): ReactNode {
  const { t } = useI18n();
  const [busy, setBusy] = useState(false);
  const [fault, setFault] = useState<Key | null>(cause === "rejected" ? "login.expired" : null);

  const submit = async (token: string): Promise<void> => {
    if (!token) {
      setFault("login.empty");
      return;
    }
    setBusy(true);
    setFault(null);
    try {
      await tryToken(token);
      signIn(token);
    } catch (error) {
      const rejected = error instanceof Refused && (error.status === 401 || error.status === 403);
      setFault(rejected ? "login.rejected" : error instanceof Refused ? "error.title" : "error.unreachable");
      setBusy(false);
    }
  };

  const onSubmit = (event: SubmitEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const token = new FormData(event.currentTarget).get("token");
    void submit(typeof token === "string" ? token.trim() : "");
  };

  return (
    <main className="login">
      <Rose />
      <form onSubmit={onSubmit} noValidate>
        <div className="login-brand">
          <Mark size={40} />
          <div>
            <h1>{t("app.name")}</h1>
            <p>{t("app.tagline")}</p>
          </div>
        </div>
        <label htmlFor="token">{t("login.token")}</label>
        <input id="token" name="token" type="password" autoComplete="off" spellCheck={false} aria-describedby="token-hint token-fault" aria-invalid={fault !== null} />
        <p id="token-hint" className="hint">
          {t("login.hint")}
        </p>
        <p id="token-fault" className="fault" role="alert">
          {fault && t(fault)}
        </p>
        <button type="submit" className="button is-primary" disabled={busy}>
          {busy ? t("login.checking") : t("login.submit")}
        </button>
        <div className="login-tools">
          <LanguageButton />
          <ThemeButton />
        </div>
      </form>
    </main>
  );
}

/** Thirty-two rhumb lines from one point, as on old sea charts. */
function Rose(): ReactNode {
  const rays = Array.from({ length: 32 }, (_, at) => (at * 360) / 32);
  return (
    <svg className="login-rose" viewBox="-500 -500 1000 1000" preserveAspectRatio="xMidYMid slice" aria-hidden="true">
      {rays.map((angle, at) => (
        <path key={angle} d="M0 0H1200" transform={`rotate(${angle})`} className={at % 4 === 0 ? "is-main" : ""} />
      ))}
      <circle r="150" />
      <circle r="310" />
    </svg>
  );
}
