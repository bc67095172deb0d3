"""Maps words of many languages to concepts, so that a reason says "migrate" for 迁移.

Each phrase lists words that stand for it. A trailing * marks a stem; two words joined by _ must follow each other; scripts
without spaces are searched for parts. A phrase's weight is the trained weight of the words that named it.
"""

from itertools import compress
from operator import itemgetter

from router.contract.features import UNSPACED

_PHRASES = {
    # Small, named edits.
    "rename": "renam* umbenenn* benenn* renomm* renombr* renome* rinomin* hernoem* переимен* przemian* přejmenu* 重命名 改名 リネーム 이름을",
    "typo": "typo typos misspel* misspell* spelling tippfehler* rechtschreib* faute orthograph* errata ortograf* digitação refuso"
    " опечатк* literówk* překlep* yazım stavfel skrivfel 错别字 拼写 誤字 タイポ 오타",
    "bump": "bump bumps hochsetz* anheben subir_versión",
    "version": "version* versión versão versione wersj* verze верси* sürüm 版本 バージョン 버전",
    "comment": "comment comments kommentar* commentaire* comentario* comentário* commento комментар* komentarz* yorum 注释 コメント 주석",
    "docstring": "docstring* jsdoc",
    "import": "import imports importier* importer importa* импорт* 导入 インポート",
    "one line": "one_line single_line one-liner oneliner zeile ligne línea linha riga строк* linij* řádk* řádek satır regel 一行 1行",
    "whitespace": "whitespace trailing_space leerzeichen espacio espacios espace espaço пробел* boşluk 空格 空白",
    "indent": "indent* einrück* 缩进 インデント",
    "comma or semicolon": "semicolon* comma commas semikolon komma virgule coma vírgula 分号 逗号",
    "color": "color colors colour* farbe* couleur* colores cor cores colore цвет* kolor* renk rengi 颜色 色を 색상",
    "button": "button buttons knopf schaltfläche bouton* botón botones botão bottone кнопк* przycisk* düğme* buton* knapp* 按钮 ボタン 버튼",
    "label": "label labels tooltip placeholder beschriftung* étiquette etiqueta подпис* 标签 ラベル",
    "text": "text texts wording texto texte testo текст* tekst metin 文字 文案 テキスト 텍스트",
    "title": "title titles heading titel überschrift titre título titolo заголов* tytuł başlık* 标题 タイトル 제목",
    "spacing": "padding margin margins spacing width height abstand* marge margen 间距 余白",
    "icon": "icon icons symbol icône icono ícone иконк* ikona 图标 アイコン",
    "font": "font fonts schriftart police fuente 字体 フォント",
    "default value": "default defaults standardwert défaut predeterminad* padrão 默认 デフォルト 기본값",
    "constant": "constant const constants konstante constante константа 常量 定数",
    "variable": "variable variables var variabel* variável переменн* zmienn* değişken 变量 変数 변수",
    "flag": "flag flags toggle schalter drapeau bandera 开关 フラグ",
    "timeout": "timeout timeouts",
    "limit": "limit limits grenze* límite limite лимит* 限制 上限",
    "null or undefined": "null nil undefined",
    "return value": "return_value rückgabe* retourne devuelve devolver retorna 返回值 戻り値 반환",
    "field": "field fields feld felder champ campo campos поле pole alan 字段 フィールド 필드",
    "column": "column columns spalte* colonne columna coluna столб* kolumn* sütun 列名 カラム 컬럼",
    "log line": "log_line console_log print_statement printf",
    "gitignore": "gitignore dockerignore editorconfig",
    "config": "env yaml yml toml ini setting settings einstellung* réglage ajuste настройк* 配置项 設定値",
    "link": "link links href lien enlace ссылк* 链接 リンク",
    "format": "format formatting formatier* formater formatear форматир* 格式化 整形",
    "sort": "sort sorted order_by sortier* trier ordena* сортир* 排序 ソート 정렬",
    "regex": "regex regexp regular_expression 正则 正規表現 정규식",
    "query": "sql query select_statement abfrage requête consulta запрос sorgu 查询 クエリ 쿼리",
    "snippet": "snippet one-off fizzbuzz haiku 片段 スニペット",
    "function": "function functions funktion* fonction función função funzione функци* funkcj* fonksiyon* 函数 関数 함수",
    "example": "example examples beispiel* exemple ejemplo exemplo esempio пример* przykład örnek 例子 示例 例を",
    "remove": "remove removes delete drop entfern* lösch* supprim* enlèv* elimina* quita* borra* remov* apag* rimuov* togli"
    " удали* убери* usuń* odstraň* sil kaldır* verwijder* 删除 去掉 移除 削除 삭제",
    "add": "add adds hinzufüg* ergänz* ajout* añad* agrega* adicion* aggiung* добав* dodaj* přidej* ekle toevoeg* lägg 添加 加上 追加 추가",
    "change": "change set änder* modifi* cambia* altera* troca* поменя* измен* zmień* změň* değiştir* wijzig* 改成 改为 修改 変更 변경",
    "replace": "replace swap ersetz* remplac* reemplaz* substitu* sostitui* замен* zamień* nahraď 替换 置き換え 교체",
    "move": "move moves verschieb* déplac* mueve mover sposta* перемест* przenieś* 移动 移動 이동",
    "undo": "undo revert reverts rückgängig annul* deshaz* desfa* откат* cofnij 撤销 还原 取り消し 되돌려",
    "commit": "commit commits committe* commite* закоммит* 提交 コミット 커밋",
    "push": "push pushed git_push 推送 プッシュ 푸시",
    "run": "run rerun execute starte ausführ* lance exécut* ejecuta* roda* executa* esegui запусти* uruchom* spusť* çalıştır* 运行 実行 실행",
    "install": "install npm pip installier* installe* instala* установ* 安装 インストール 설치",
    "open or show": "open show öffne ouvre abre apri открой otwórz aç 打开 開いて 열어",
    "list": "list lists liste lista перечисл* 列出 一覧 목록",
    # Questions and talk.
    "what": "what what's whats was_ist was_bedeutet qu quoi qué que_es o_que cosa_fa что_такое co_to nedir apa 什么 是什么 とは 何ですか 무엇 뭐야",
    "how to": "how_do how_to how_can how_should wie_kann wie_geht comment_faire cómo como_faço come_si как_сделать jak_zrobić nasıl hoe_kan 怎么 如何 どうやって 어떻게",
    "why": "why warum wieso pourquoi por_qué por_que perché почему dlaczego proč neden niçin waarom varför 为什么 なぜ どうして 왜",
    "where": "where wo où dónde onde dove где gdzie kde nerede waar 在哪 どこ 어디",
    "which": "which welche* quel quelle cuál qual quale какой какая który která hangi 哪个 どれ どちら 어느",
    "difference": "difference unterschied différence diferencia diferença differenza разниц* różnic* rozdíl fark fark* verschil skillnad*"
    " 区别 違い 차이",
    "explain": "explain explains erklär* expliqu* explic* spiega* объясн* wyjaśn* vysvětl* açıkla* uitleg* förklar* 解释 説明 教えて 설명 알려",
    "meaning": "mean means meaning bedeut* signif* signific* значит oznacza anlam 意思 意味 의미",
    "question": "question questions frage fragen pregunta pergunta domanda вопрос soru 问题是 質問 질문",
    "short": "short quick quickly briefly kurz kurze rapide corto rápido curto breve корот* krótk* kısa kort 简短 短い 짧은",
    "thanks": "thanks thank thx danke merci gracias obrigad* grazie спасибо dzięki teşekkür* dank tack 谢谢 ありがと 감사",
    # Limits.
    "only or just": "only just nur einfach juste seulement solo sólo só apenas soltanto только tylko jen sadece alleen bara endast 只 仅 だけ のみ 만",
    "nothing else": "nothing_else anything_else nichts_anderes nichts_sonst sonst_nichts rien_d nada_más nada_mais nient_altro ничего_больше"
    " больше_ничего nic_więcej başka_bir 其他不 别的不 他は触",
    "leave the rest": "t_touch not_touch leave_everything touche_pas no_toques não_mexa не_трогай nie_ruszaj dokunma 不要动 别动 触らない",
    "missing": "missing forgot fehlt vergess* manque oubli* falta olvid* esquec* manca забыл* brakuje eksik glöm* 缺少 漏了 忘れ 빠졌",
    # Large work.
    "refactor": "refactor* refaktor* réfactor* рефактор* restructur* umstruktur* reestructur* 重构 リファクタ 리팩터",
    "migrate": "migrat* migrier* migrer migrar migra migrazione мигр* migracj* migrow* migrace taşı umstieg umstell* umzug overstap*"
    " 迁移 迁到 移行 마이그레이션",
    "rewrite": "rewrit* umschreib* neuschreib* réécri* reescri* riscriv* перепис* przepis* přepiš* yeniden_yaz herschrij* 重写 书き直 書き直",
    "port": "port ports porting portier* porter portar портир* 移植 포팅",
    "convert": "convert converts konvertier* convert* convierte преобраз* przekształć dönüştür* 转换 変換 변환",
    "upgrade": "upgrade upgrades upgrading aktualisier* mise_à actualiza* обнов* zaktualiz* yükselt* 升级 アップグレード 업그레이드",
    "implement": "implement* implementier* implément* реализу* реализов* zaimplement* uygula* 实现 実装 구현",
    "build": "build builds baue bauen aufbau* construi* constru* costru* построй* zbuduj* kur oluştur* bygg* 构建 搭建 搭一个 作って 構築 만들어",
    "create": "create creates erstell* crée créer créez crear crea cria criar создай* stwórz* utwórz* vytvoř* maak skapa 创建 新建 作成 생성",
    "write": "write writes schreib* écri* escrib* escrev* scriv* напиш* napisz* napiš* yaz schrijf* skriv* 写一个 编写 書いて 작성",
    "design": "design designs entwurf entwirf konzept* concevo* conçois diseñ* progettare progett* проектир* zaprojekt* navrhni tasarla* ontwerp* 设计 設計 설계",
    "architecture": "architectur* architektur* arquitect* arquitet* архитект* mimari* 架构 アーキテクチャ 아키텍처",
    "plan": "plan plans roadmap outline how_would approach_to planung planif* plano piano план* 计划 规划 計画 계획",
    "phases": "phase phases phasen étape* fase fases этап* etap* aşama* 阶段 フェーズ 단계",
    "step by step": "step_by schritt_für pas_à paso_a passo_a passo_per шаг_за krok_po adım_adım stap_voor 一步一步 分步 段階的",
    "strategy": "strateg* stratég* estrateg* стратег* 策略 方案 戦略 전략",
    "proposal": "propos* vorschlag* propuest* предлож* zaproponuj* 提案 제안",
    "whole codebase": "whole_codebase entire_codebase whole_project entire_project whole_repo entire_repo code_base codebase ganze_codebase"
    " gesamte_codebase toute_la todo_el todo_o tutto_il весь_проект весь_код cały_projekt tüm_proje 整个项目 整个代码 全体 プロジェクト全体 전체",
    "everything": "everything alles tout tudo tutto всё wszystko vše hepsi allt 全部 所有 すべて 全て 모두 모든",
    "all": "all alle tous toutes todos todas tutti tutte все wszystkie všechny tüm bütün alla 都要",
    "every": "every each jede jeder jedes chaque cada ogni каждый каждого każdy každý elke varje 每个 每一 각",
    "everywhere": "everywhere throughout überall partout todas_partes por_todo ovunque везде wszędzie všude her_yer overal överallt 到处 各处",
    "across": "across quer_durch à_travers a_través através 跨",
    "complete": "complete completely full fully komplett* vollständig* complet* complèt* completo* completa* полн* kompletn* pełn* tam volledig*"
    " fullständig* 完整 完全 완전",
    "from scratch": "from_scratch von_grund partir_de desde_cero do_zero da_zero с_нуля od_zera sıfırdan vanaf_nul från_grunden 从零 从头 ゼロから 처음부터",
    "end to end": "end_to end-to-end e2e de_bout extremo_a ponta_a",
    "system": "system systems sistema sistemas système систем* systemu sistem* 系统 システム 시스템",
    "platform": "platform* plattform* plateforme* plataforma* piattaforma платформ* 平台 プラットフォーム 플랫폼",
    "app": "app application anwendung appli* aplicación aplicativo applicazione приложени* aplikacj* aplikace uygulama* 应用 アプリ 앱을",
    "game": "game games spiel jeu juego jogo gioco игра игру игры игре игровой gra hra oyun 游戏 ゲーム 게임",
    "engine": "engine engines motor moteur motore движок silnik 引擎 エンジン 엔진",
    "compiler": "compiler interpreter parser_for kompilator компилятор* derleyici 编译器 コンパイラ",
    "pipeline": "pipeline pipelines конвейер 流水线 パイプライン 파이프라인",
    "service": "service services microservice* dienst* servicio* serviço* servizi* сервис* usług* 服务 サービス 서비스",
    "backend": "backend backends бэкенд* 后端 バックエンド 백엔드",
    "frontend": "frontend frontends фронтенд* 前端 フロントエンド 프론트",
    "module": "module modules modul* módulo* modulo модул* 模块 モジュール 모듈",
    "library": "library libraries bibliothek* bibliothèque* librería biblioteca libreria библиотек* kütüphane 库 ライブラリ 라이브러리",
    "plugin": "plugin plugins extension extensions erweiterung 插件 プラグイン 플러그인",
    "integration": "integrat* integrier* intégr* integra* интегр* zintegr* entegr* 集成 对接 連携 연동",
    "login or auth": "login signup sign-in oauth oauth2 sso auth authenticat* authentifi* autentic* anmeld* connexion аутентиф* авториз* uwierzyteln* giriş 登录 认证 認証 로그인",
    "billing": "billing payment* subscription* stripe invoice* zahlung* paiement* pago* pagamento* оплат* płatnoś* ödeme* 支付 计费 決済 결제",
    "dashboard": "dashboard* panel* tableau_de tablero painel дашборд* 看板 仪表 ダッシュボード 대시보드",
    "database": "database* datenbank* base_de banco_de база базу базы базе bazę veritabanı databas 数据库 データベース 데이터베이스",
    "schema": "schema schemas tables schémas esquema схем* 表结构 スキーマ 스키마",
    "data": "data daten données datos dados dati данн* danych veri 数据 データ 데이터",
    "API": "api apis graphql grpc 接口 エンドポイント",
    "server": "server serveur servidor* сервер* serwer* sunucu 服务器 サーバ 서버",
    "tests": "tests test_suite testing pruebas testes тест* testy testler 测试 テスト 테스트",
    "coverage": "coverage abdeckung couverture cobertura copertura покрыти* pokrycie 覆盖率 カバレッジ",
    "benchmark": "benchmark* load_test lasttest* 基准 压测 ベンチマーク",
    "CI or workflow": "ci github_actions jenkins workflow workflows 持续集成",
    "deploy": "deploy* rollout ausroll* déploi* despleg* implanta* развер* развёр* wdroż* nasaď dağıt* 部署 上线 デプロイ 배포",
    "containers": "docker kubernetes k8s helm terraform container* 容器 コンテナ",
    "monitoring": "monitor* alerting metrics observab* überwach* surveill* métric* мониторинг* izle 监控 監視 모니터링",
    "performance": "performance perf slow latency throughput optimi* leistung* lent rendimiento desempenho lento медлен* wydajno* performans yavaş 性能 优化 パフォーマンス 遅い 성능",
    "profile": "profile profiling profilier* profiler профилир* 剖析 プロファイル",
    "memory leak": "memory_leak leak leaks leaking speicherleck fuite fuga утечк* wyciek* 内存泄漏 メモリリーク 메모리",
    "deadlock or race": "race_condition race_conditions deadlock* data_race wettlauf 竞态 死锁 競合 デッドロック",
    "flaky": "flaky intermittent* sometimes manchmal parfois a_veces às_vezes иногда czasami bazen soms ibland 偶尔 有时 時々 たまに 가끔",
    "root cause": "root_cause ursache* cause_racine causa_raíz causa причин* przyczyn* příčin* kök_neden oorzaak orsak* 根本原因 原因 근본",
    "investigate": "investigat* untersuch* enquêt* investig* indaga* расслед* разберись разобраться zbadaj* araştır* onderzoek* undersök* 排查 调查 調査 원인",
    "find": "find finde finden trouve trouver encuentra encontrar encontre trova найди* znajdź najdi bul zoek hitta 找出 找到 探して 찾아",
    "debug": "debug* troubleshoot* fehlersuche débog* depura* отлад* zdebug* 调试 デバッグ 디버깅",
    "audit": "audit* auditier* auditor* аудит* 审计 審査 監査",
    "security": "security vulnerab* sicherheit* sécurit* seguridad* segurança sicurezza безопасн* уязвим* bezpiecz* güvenlik* 安全 漏洞 セキュリティ 보안",
    "review": "review reviews überprüf* begutacht* revue revis* revisa* rivedi* провер* przejrzyj* incele* granska 审查 评审 レビュー 리뷰",
    "analyse": "analy* analis* анализ* проанализ* 分析 분석",
    "research": "research* recherch* forsch* исследу* badaj* 研究 リサーチ",
    "compare": "compare comparison vergleich* compar* confront* сравн* porówn* karşılaştır* vergelijk* jämför* 比较 对比 比較 비교",
    "evaluate": "evaluat* bewert* évalu* evalu* valuta* оцен* oceń* 评估 評価 평가",
    "split": "split splits aufteil* zerleg* découp* dividir separa* раздел* podziel* böl 拆分 分割 나눠",
    "extract": "extract extrah* extrai* estrae* вынес* wydziel* 抽取 抽出",
    "consolidate": "consolidat* unify vereinheitlich* unifi* unific* объедин* ujednolic* 统一 統一 통합",
    "reorganize": "reorgani* restructure reorganiz* реорганиз* 整理 정리",
    "generate": "generat* generier* génér* gera gerar genera* сгенер* wygener* 生成",
    "documentation": "documentation docs dokumentation* documenta* document* документац* dokumentacj* dokümantasyon 文档 ドキュメント 문서",
    "guide": "guide guides tutorial anleitung* guía guia руководств* przewodnik kılavuz 教程 指南 手順書 가이드",
    "translation": "i18n l10n translat* übersetz* tradu* перев* tłumacz* çeviri 国际化 翻译 多言語 번역",
    "accessibility": "accessib* barrierefrei* a11y wcag 无障碍 アクセシビリティ",
    "sync": "offline sync synchron* synchronis* sincroniz* синхрон* 离线 同步 同期 동기화",
    "real time": "real_time realtime websocket* echtzeit temps_réel tiempo_real tempo_real 实时 リアルタイム 실시간",
    "cache": "cache caching caches 缓存 キャッシュ 캐시",
    "queue": "queue queues warteschlange file_d cola fila очеред* kolejk* 队列 キュー 큐",
    "multi-tenant": "tenant tenants multi-tenant multitenant mandant* 多租户 マルチテナント",
    "monorepo or monolith": "monorepo monolith* monolit*",
    "typescript or types": "typescript typing typings type_hints typisier* 类型标注",
    "async": "async asynchron* asyncio 异步 非同期 비동기",
    "feature": "feature features funktionalität fonctionnalité* funcionalidad* funcionalidade* фича фичу фичи фичей funkcjonalno* özellik* 功能 機能 기능",
    "support": "support supports unterstütz* prise_en soporte suporte supporto поддерж* obsług* destek* 支持 対応 지원",
    "workflow": "flow flows workflow_for ablauf* flujo fluxo flusso процесс* 流程 フロー",
    "simulation": "simulat* simulier* simul* симул* 模拟 シミュレーション",
    "algorithm": "algorithm* algorithmus algorithme algoritm* алгоритм* 算法 アルゴリズム 알고리즘",
    "model": "train model models trainier* entraîn* entrena* обуч* 训练 学習 모델",
    "report": "report reports bericht* rapport* informe* relatório* отчёт* отчет* raport* rapor* 报告 报表 レポート 帳票",
    "rollback": "rollback rollbacks rückfall* 回滚 ロールバック",
    "downtime": "downtime zero-downtime ausfall* arrêt interrupc* просто* 停机 ダウンタイム",
    "production": "production prod produktion* producción produção produzione продакшен* production_ready üretim 生产环境 本番 프로덕션",
    "production ready": "production_ready hardened robust enterprise* 生产级",
    "clean up": "cleanup clean_up tidy aufräum* nettoy* limpia* limpa* почист* wyczyść* temizle 清理 片付け",
    "remaining work": "finish complete_the rest remaining restlich* termine* termina* закончи* dokończ* bitir* 剩下 残り 나머지",
    "continue": "continue proceed resume go_on go_ahead keep_going weiter continuez sigue continúa continua prossiga продолж* kontynuuj* pokračuj*"
    " devam ga_verder fortsätt 继续 続けて 계속",
    "error": "error errors exception traceback fehler* erreur* error_de erro erros errore ошибк* błąd* chyba hata* fout* fel 错误 报错 エラー 오류 에러",
    "fix": "fix fixes beheb* corrig* répar* arregl* conserta* correggi* ripara исправ* почини* napraw* oprav* düzelt* repareer* fixa 修复 修正 直して 수정 고쳐",
    "broken": "broken breaks broke crash* crashes kaputt* cassé* roto rota quebr* rotto сломан* сломал* zepsu* bozuk stuk trasig* 崩溃 坏了 壊れ",
    "still wrong": "still_not still_fails still_failing still_fail still_broken still_wrong still_doesn still_don still_isn still_no still_same"
    " still_get still_getting still_see still_crashes still_there still_happens is_wrong s_wrong was_wrong not_right not_what t_right same_error"
    " same_problem same_issue same_bug try_again no_change nothing_changed nothing_happened nothing_happens"
    " you_broke you_forgot you_missed you_removed t_work t_works t_help not_work not_working not_fixed not_correct incorrect"
    " immer_noch noch_immer geht_nicht funktioniert_nicht stimmt_nicht ist_falsch toujours_pas marche_pas fonctionne_pas est_faux"
    " sigue_sin sigue_fallando sigue_igual no_funciona todavía_no está_mal ainda_não ainda_nao não_funciona continua_dando non_funziona ancora_non"
    " всё_ещё все_ещё все_еще не_работает опять nadal_nie wciąż_nie nie_działa pořád_ne nefunguje hâlâ hala olmadı çalışmıyor werkt_niet"
    " nog_steeds funkar_inte masih_error vẫn_lỗi 还是不 还是没 还是报 还是有 还是一样 仍然 没有变化 不对 错了 まだエラー まだ動 まだ直 直ってない 直っていない"
    " 違います 여전히 아직도",
    "many parts": "several multiple mehrere plusieurs varios varias vários несколько kilka birkaç 多个 複数 여러",
}

_NO_TASK = """
    hi hello hey yo hiya howdy hallo moin servus salut bonjour bonsoir hola buenas olá oi ciao привет здравствуйте хай cześć hej ahoj
    merhaba selam hoi 你好 您好 嗨 こんにちは こんばんは おはよう 안녕 안녕하세요 안녕하십니까
    thanks thank thx ty tysm cheers thankyou danke dankeschön merci gracias obrigado obrigada valeu grazie спасибо благодарю dzięki dziękuję
    díky děkuji teşekkürler sağol bedankt tack 谢谢 多谢 感谢 ありがとう ありがとうございます どうも 고마워 감사합니다 감사해요
    ok okay k kk okey alright fine cool nice great good perfect awesome excellent lovely brilliant super wow lol haha yay sweet neat
    gut prima toll perfekt parfait génial perfecto genial vale perfeito ótimo legal beleza ottimo perfetto хорошо отлично супер круто ок
    świetnie dobrze super skvělé tamam harika mooi prima bra 好 好的 不错 很好 太好了 棒 了解 了解です 좋아 좋아요 알겠습니다
    bye goodbye ciao tschüss adiós tchau пока goodnight ping lgtm works worked welcome np
"""
_FILLERS = """
    you so much very a lot man mate bro dude buddy team all there everyone again now it that this is was looks look looking works really for the
    your help morning afternoon evening day night good guten morgen tag abend dir ihnen vielen sehr merci beaucoup bien très muchas mucho muy
    muito bem большое вам тебе bardzo çok to i just saying well done job work and und et y e и i
    """
PHRASES = tuple(_PHRASES)
"""The only words of a reading that a reason may show."""
_STEM_CHARS = 4

WORDS: dict[str, str] = {}
PAIRS: dict[str, dict[str, str]] = {}
"""Phrases of two words, by the second word, then the first."""
_STEMS: dict[str, list[tuple[str, str]]] = {}
_PARTS: dict[str, list[tuple[str, str]]] = {}
for _phrase, _forms in _PHRASES.items():
    for _form in _forms.split():
        if _form.endswith("*"):
            _STEMS.setdefault(_form[:_STEM_CHARS], []).append((_form[:-1], _phrase))
        elif UNSPACED.match(_form):
            _PARTS.setdefault(_form[0], []).append((_form, _phrase))
        elif "_" in _form:
            _first, _second = _form.split("_")[:2]
            PAIRS.setdefault(_second, {}).setdefault(_first, _phrase)
        else:
            WORDS.setdefault(_form, _phrase)
for _alike in _PARTS.values():
    _alike.sort(key=lambda pair: -len(pair[0]))
_NOTHING_ASKED = frozenset(_NO_TASK.split())
_AROUND_NOTHING = _NOTHING_ASKED | frozenset(_FILLERS.split())
_MAX_IDLE_WORDS = 8
_SPEAKING = WORDS.keys() | PAIRS.keys()
_stem_of = itemgetter(slice(_STEM_CHARS))


def find_phrase(word: str) -> str | None:
    phrase = WORDS.get(word)
    if phrase is None:
        for stem, found in _STEMS.get(word[:_STEM_CHARS], ()):
            if word.startswith(stem):
                return found
    return phrase


def find_speaking(words: set[str]) -> set[str]:
    """Words that may stand for a phrase: alone, by their stem, or after another word."""
    return (words & _SPEAKING).union(compress(words, map(_STEMS.__contains__, map(_stem_of, words))))


def find_parts(run: str) -> list[tuple[str, str]]:
    """Parts of a run that stand for a phrase; the longest of those that begin alike."""
    found = []
    for index, sign in enumerate(run):
        for part, phrase in _PARTS.get(sign, ()):
            if run.startswith(part, index):
                found.append((part, phrase))
                break
    return found


def asks_for_nothing(words: list[str]) -> bool:
    """Whether words are only a greeting, thanks or a nod; signs alone, such as 👍, too."""
    if not words:
        return True
    if len(words) > _MAX_IDLE_WORDS or _NOTHING_ASKED.isdisjoint(words):
        return False
    return all(word in _AROUND_NOTHING for word in words)
