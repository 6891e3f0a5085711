import "./styles/index.css";

import { QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { makeQueryClient } from "./api/queries";
import { App } from "./App";
import { I18nProvider } from "./i18n";
import { startSession } from "./session";
import { startTheme } from "./theme";

startTheme();
startSession();

const root = document.getElementById("root");
if (!root) throw new Error("index.html has no element with the id root");

createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={makeQueryClient()}>
      <I18nProvider>
        <App />
      </I18nProvider>
    </QueryClientProvider>
  </StrictMode>,
);
