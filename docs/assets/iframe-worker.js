// Search from a folder: browsers start no worker for a page of file://, so that a hidden frame takes its place.
// The theme's worker asks for `IFrameWorker` where it looks for its own files.
if (location.protocol === "file:") {
  class IFrameWorker extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.inside = frame.contentWindow;
      const page = frame.contentDocument;
      // What the worker sends is an event of this object, as of any worker.
      this.inside.postMessage = (data) =>
        setTimeout(() => this.dispatchEvent(new MessageEvent("message", { data })));
      this.ready = new Promise((resolve, reject) => {
        const script = page.createElement("script");
        script.onload = resolve;
        script.onerror = reject;
        script.src = url;
        page.body.appendChild(script);
      });
    }

    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data })));
    }

    terminate() {
      this.inside.frameElement.remove();
    }
  }
  window.IFrameWorker = IFrameWorker;
  window.Worker = IFrameWorker;
}
