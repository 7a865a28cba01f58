// One entry, one manifest: Django's tag `console_bundle` reads dist/manifest.json.
import { defineConfig } from "vitest/config";

export default defineConfig({
  base: "/static/console/",
  build: {
    outDir: "dist",
    emptyOutDir: true,
    manifest: "manifest.json",
    modulePreload: false,
    assetsInlineLimit: 0,
    rolldownOptions: { input: "src/main.ts" },
  },
  test: { environment: "happy-dom", include: ["src/test/**/*.test.ts"] },
});
