import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// `npm run dev` passes the API on to a running server; the built console is served by that server itself.
const server = process.env["RHUMB_URL"] ?? "http://127.0.0.1:7400";

export default defineConfig({
  plugins: [react()],
  base: "./",
  build: { target: "es2022", sourcemap: false, chunkSizeWarningLimit: 400 },
  server: { proxy: { "/v1": server, "/openapi.json": server } },
});
