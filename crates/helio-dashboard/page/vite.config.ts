import { defineConfig } from "vite";

// Names without hashes: the server serves what was built with it, and says when that changed.
export default defineConfig({
  base: "/static/",
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
  build: {
    target: "es2022",
    modulePreload: false,
    rollupOptions: {
      output: {
        entryFileNames: "page.js",
        assetFileNames: "page[extname]",
        inlineDynamicImports: true,
      },
    },
  },
});
