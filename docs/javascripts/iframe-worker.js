// Search in a site that is opened without a server: browsers refuse workers on file:// pages, so that the worker's
// script runs in a hidden frame of the page instead, with the same messages to and fro.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = (this.inside = frame.contentWindow);
      inside.postMessage = (data) => this.tell(this, data);
      inside.importScripts = (...urls) => Promise.all(urls.map((each) => this.load(each)));
      this.ready = this.load(url);
    }

    load(url) {
      return new Promise((resolve, reject) => {
        const script = this.inside.document.createElement("script");
        Object.assign(script, { src: new URL(url, location.href).href, onload: resolve, onerror: reject });
        this.inside.document.body.append(script);
      });
    }

    tell(target, data) {
      const event = new MessageEvent("message", { data });
      target.dispatchEvent(event);
      if (target === this && this.onmessage) this.onmessage(event);
    }

    postMessage(data) {
      this.ready.then(() => this.tell(this.inside, data));
    }

    terminate() {
      this.inside.frameElement.remove();
    }
  };
}
