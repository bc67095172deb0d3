"""Words by what they ask for, in many languages: the same idea counts the same whoever wrote it.

A word stands under the first concept that lists it. Scripts without spaces are searched for parts of words instead.
"""

import re

CONCEPTS = (
    "consent",
    "question",
    "explain",
    "make",
    "change",
    "operate",
    "whole",
    "trouble",
    "plan",
    "test",
    "document",
    "analyse",
    "detail",
)
"""In the order of the `says_` fields of `Features`."""

_WORDS = {
    "consent": """
        yes yep yeah yup ok okay sure proceed continue go ahead resume approved agree agreed confirm confirmed lgtm
        perfect great good ja weiter genau gerne passt los oui
        vas continuez parfait accord bien sí si claro dale vale
        adelante continúa continua sigue perfecto sim pode prossiga
        siga perfeito ottimo va bene procedi certo да ок
        продолжай давай хорошо отлично делай はい お願いします tak dobrze
        kontynuuj ano jo pokračuj evet tamam devam 네 계속 좋아
    """,
    "question": """
        what how why where which when who whose does is are
        did was were can could should would wie warum wo welche wann
        wer ist sind kann quoi comment pourquoi où quel quelle
        quels quelles quand ce qué que cómo como por cuál cuáles
        cuándo dónde qual quais quando onde porque está cosa come
        perché dove quale что как почему где какой какие когда
        зачем ли co jak dlaczego proč gdzie kde ne nasıl neden nerede
    """,
    "explain": """
        explain describe tell show list give summarize
        summarise summary understand clarify mean means think opinion
        recommend suggest difference question erkläre zeige sag
        liste explique explica explicar montre dis muestra dime
        mostre spiega mostra объясни покажи расскажи скажи wyjaśnij pokaż vysvětli anlat göster
    """,
    "make": """
        implement implementing build create add develop generate
        introduce integrate design scaffold setup set support
        extend convert migrate port write rewrite implementiere
        erstelle baue füge hinzu entwickle schreibe implémente
        crée créer ajoute ajouter développe construis implementa
        implementar crea crear añade agrega agregar desarrolla
        implemente crie criar adicione adicionar desenvolva
        construa aggiungi sviluppa реализуй создай добавь сделай
        напиши dodaj stwórz zrób zaimplementuj vytvoř přidej udělej ekle oluştur yap
    """,
    "change": """
        fix update change refactor rename remove delete
        replace improve optimize optimise move adjust modify correct
        clean redesign rework make use need must
        want ändere korrigiere aktualisiere entferne verbessere ersetze mache
        corrige corriger modifie supprime améliore mets remplace
        remets arregla cambia actualiza elimina mejora quita
        corrija corrigir altere atualize atualizar remova melhore ajuste correggi modifica aggiorna rimuovi исправь
        измени обнови убери удали поправь замени napraw zmień usuń popraw oprav změň uprav odstraň düzelt değiştir
        kaldır güncelle
    """,
    "operate": """
        run start stop restart commit push pull merge rebase
        deploy install check verify open launch kill execute branch
        pr git starte prüfe führe lance vérifie exécute
        démarre pousse ejecuta revisa verifica corre sube rode verifique
        suba faça esegui controlla запусти проверь закоммить uruchom sprawdź spusť zkontroluj çalıştır kontrol
    """,
    "whole": """
        all every each everything entire whole complete completely full fully across throughout both multiple
        comprehensive thorough alle alles jede ganze komplett
        vollständig tous toutes tout chaque complet entier todo
        todos todas cada completo entero tudo completa tutto
        tutti ogni все всё весь каждый полностью wszystko wszystkie
        všechny vše každý hepsi bütün tüm
    """,
    "trouble": """
        still again not t cannot error errors fail fails
        failed failing failure broken wrong bug issue problem crash
        missing nicht kein fehler immer noch geht pas erreur
        toujours encore marche problème no fallo todavía aún não
        erro ainda funciona problema non errore ancora не
        ошибка ошибки ещё работает nie błąd działa chyba nefunguje
        pořád hata hala değil olmuyor
    """,
    "plan": """
        plan phase phases step steps task tasks
        roadmap spec specs requirement requirements feature features milestone
        story epic prd architecture strategy schritt aufgabe étape
        tâche tarea fase paso etapa tarefa план шаг задача
        этап krok zadanie
    """,
    "test": """
        test tests testing pytest unittest jest coverage e2e
        playwright lint typecheck ci teste testen prueba pruebas
        testes тест тесты testy
    """,
    "document": """
        docs documentation readme doc document markdown
        md changelog comments dokumentation documentação documentación
        документация
    """,
    "analyse": """
        analyze analyse investigate review audit research explore
        examine inspect compare debug find search look read
        study evaluate analysiere untersuche finde cherche trouve
        étudie regarde analiza busca investiga lee analise
        procure leia проанализируй найди изучи посмотри przeanalizuj znajdź najdi analizuj incele bul
    """,
    "detail": """
        button color colour text label title font padding margin
        icon style css width height line word name typo column
        border header footer image logo page layout
    """,
}
_PARTS = {
    "consent": "继续 好的 可以 是的 确认 同意 はい 続けて お願い 진행 계속 그래",
    "question": "什么 怎么 为什么 吗 哪 如何 是否 多少 何 どう なぜ ですか 무엇 어떻게 왜 인가",
    "explain": "解释 说明 告诉 介绍 列出 总结 説明 教えて 설명 알려",
    "make": "实现 创建 添加 新增 增加 开发 生成 编写 构建 作成 追加 実装 구현 추가 만들 작성",
    "change": "修改 修复 更新 优化 重构 改为 改成 删除 去掉 替换 调整 修正 変更 削除 改善 수정 변경 삭제 개선",
    "operate": "运行 启动 提交 推送 部署 安装 检查 执行 実行 起動 コミット 確認 실행 커밋 배포 확인",
    "whole": "所有 全部 整个 每个 完整 すべて 全て 全体 모든 전체",
    "trouble": "还是 仍然 没有 不 错误 报错 失败 问题 エラー まだ ない 問題 오류 에러 아직 안  문제",
    "plan": "计划 方案 阶段 步骤 任务 需求 計画 手順 タスク 계획 단계 작업",
    "test": "测试 テスト 테스트",
    "document": "文档 ドキュメント 문서",
    "analyse": "分析 检查 查看 看看 研究 阅读 調査 分析 見て 분석 검토 조사",
}

SMALL_EDITS = frozenset(
    """
    typo typos misspelled misspelling spelling reword rephrase docstring docstrings reindent tippfehler rechtschreibfehler faute
    orthographe errata ortografía digitação refuso опечатка опечатку опечатки literówka literówkę překlep yazım 错别字
    """.split()
)
"""Edits that are small by their name, whoever asks."""
WORDS = {word: CONCEPTS.index(concept) for concept, words in _WORDS.items() for word in words.split()}
PARTS = {part: CONCEPTS.index(concept) for concept, parts in reversed(_PARTS.items()) for part in parts.split()}
ANY_PART = re.compile("|".join(sorted(map(re.escape, PARTS), key=len, reverse=True)))
