import { defineConfig } from "vite";

// Names without hashes: the same source gives the same files, so a rebuild shows up as a difference or not at all.
export default defineConfig({
  base: "/",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  worker: { format: "es", rollupOptions: { output: { entryFileNames: "assets/[name].js" } } },
  build: {
    outDir: "../src/tensight/server/static",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    rollupOptions: {
      output: {
        entryFileNames: "assets/page.js",
        chunkFileNames: "assets/[name].js",
        assetFileNames: "assets/page[extname]",
      },
    },
  },
} as Parameters<typeof defineConfig>[0]);
