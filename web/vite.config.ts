import { fileURLToPath } from "node:url";
import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

export default defineConfig({
  root: fileURLToPath(new URL(".", import.meta.url)),
  // Every element of the dashboard is made by `visible-jsx/`: text from outside cannot hide characters on any page.
  plugins: [react({ jsxImportSource: "visible-jsx" }), tailwindcss()],
  resolve: { alias: { "visible-jsx": fileURLToPath(new URL("visible-jsx", import.meta.url)) } },
  build: {
    outDir: fileURLToPath(new URL("../dist/web", import.meta.url)),
    emptyOutDir: true,
    target: "es2022",
    // A style or script in the page itself would need a hole in its Content-Security-Policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  server: {
    proxy: { "/v2": "http://127.0.0.1:4100", "/ws-": { target: "http://127.0.0.1:4100", ws: true } },
  },
});
