interface CompressionNotification {
  type: "warning" | "info" | "success";
  message: string;
  details: {
    before_tokens: number;
    after_tokens: number;
    compression_ratio: number;
    archived_items: string[];
  };
  actions: {
    view_archive: string;  // アーカイブ閲覧URL
    undo: string;          // 元に戻すURL（可能な場合）
  };
}
